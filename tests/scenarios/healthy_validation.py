"""Healthy: a short validation after each epoch, with workers that stay."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(640, sleep_read(0.002)), batch_size=8, num_workers=2, persistent_workers=True)
validation = DataLoader(
    SlowDataset(160, sleep_read(0.001)), batch_size=16, num_workers=1, persistent_workers=True
)
loaderwatch.attach(loader)
loaderwatch.attach(validation, role="eval")


def validate(epoch: int) -> None:
    """Half a second."""
    for _ in validation:
        time.sleep(0.03)


train(loader, step_s=0.04, seconds=16, each_epoch=validate)
