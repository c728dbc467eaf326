"""S49's sibling: workers share a decoder guarded by a lock, so one computes while the others wait."""

import multiprocessing

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, train, vary

lock = multiprocessing.get_context("fork").RLock()


def decode(index: int) -> None:
    with lock:
        burn(0.006)


loader = DataLoader(
    SlowDataset(100_000, decode), batch_size=8, num_workers=vary(4, 3), multiprocessing_context="fork"
)
loaderwatch.attach(loader)
train(loader, step_s=0.01)
