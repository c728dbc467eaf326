"""S22: a pattern that backtracks forever on sample 333."""

import re

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

INDEX = vary(333, 205, 517)


def read(index: int) -> None:
    """Parses a caption."""
    if index == INDEX:
        re.match(r"(a+)+$", "a" * 40 + "b")


batch, workers = vary(8, 4, 12), vary(2, 3)
built_in(worker=INDEX // batch % workers, samples=[INDEX])
loader = DataLoader(SlowDataset(100_000, read), batch_size=batch, num_workers=workers)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.05, 0.07))
