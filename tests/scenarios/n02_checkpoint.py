"""N02: a checkpoint that takes longer than the hang limit of the test."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 6), num_workers=2)
loaderwatch.attach(loader)


def save(step: int) -> None:
    """Every sixtieth step."""
    if step % 60 == 59:
        with loaderwatch.phase("checkpoint"):
            time.sleep(8.0)


train(loader, step_s=vary(1.0, 1.2) * 0.05, seconds=18, each_step=save)
