"""S20: one sample takes two seconds."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

INDEX, SLOW_S = vary(333, 205, 517), vary(2.0, 2.6)


def read(index: int) -> None:
    """One long video among short ones."""
    time.sleep(SLOW_S if index == INDEX else 0.002)


workers = vary(2, 3)
built_in(worker=list(range(workers)), samples=[INDEX])
loader = DataLoader(
    SlowDataset(640, read), batch_size=vary(8, 5), num_workers=workers, persistent_workers=True
)
loaderwatch.attach(loader)
train(loader, step_s=0.04)
