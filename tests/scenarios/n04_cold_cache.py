"""N04: reads get faster all through the first epoch, as the page cache fills."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary


def read(index: int) -> None:
    """Cold at first."""
    time.sleep(max(0.002, 0.03 - index * 0.00004))


loader = DataLoader(SlowDataset(100_000, read), batch_size=vary(8, 6), num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=vary(1.0, 1.2) * 0.06, seconds=18)
