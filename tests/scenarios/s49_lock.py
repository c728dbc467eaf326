"""S49: the workers read through one handle, which a lock guards: one works, the others wait."""

import multiprocessing
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

lock = multiprocessing.get_context("fork").Lock()
read_s, workers = vary(0.006, 0.008), vary(4, 3, 2)


def read(index: int) -> None:
    """A sample through the shared handle."""
    with lock:
        time.sleep(read_s)


loader = DataLoader(
    SlowDataset(100_000, read),
    batch_size=vary(8, 6),
    num_workers=workers,
    multiprocessing_context="fork",
)
loaderwatch.attach(loader)
train(loader, step_s=0.01)
