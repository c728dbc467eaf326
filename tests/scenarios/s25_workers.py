"""S25 in the workers: a dataset with many Python objects collects garbage in every batch, against a leak."""

import gc

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

batch, workers = vary(8, 4, 16), vary(2, 1)
metadata = [[number] for number in range(vary(600_000, 800_000))]


def read(index: int) -> None:
    """Somebody once saw memory grow here."""
    if index % batch == 0:
        gc.collect()


loader = DataLoader(
    SlowDataset(100_000, read), batch_size=batch, num_workers=workers, multiprocessing_context="fork"
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.01, 0.015))
assert metadata
