"""S49's sibling: workers poll for a self-made lock, with a sleep between two tries; no kernel lock."""

import multiprocessing
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

free = multiprocessing.get_context("fork").Value("b", 1)
pause_s, read_s = vary(0.004, 0.01), vary(0.012, 0.02)


def taken() -> bool:
    """As with a key in Redis, or a file that exists or not."""
    with free.get_lock():
        was, free.value = free.value, 0
    return bool(was)


def read(index: int) -> None:
    while not taken():
        time.sleep(pause_s)
    time.sleep(read_s)
    free.value = 1


loader = DataLoader(
    SlowDataset(100_000, read), batch_size=vary(4, 6), num_workers=vary(4, 6), multiprocessing_context="fork"
)
loaderwatch.attach(loader)
train(loader, step_s=0.01)
