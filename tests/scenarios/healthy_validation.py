"""Healthy: a short validation after each epoch, with workers that stay."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batch = vary(8, 5)
loader = DataLoader(
    SlowDataset(80 * batch, sleep_read(0.002)),
    batch_size=batch,
    num_workers=vary(2, 3),
    persistent_workers=True,
)
validation = DataLoader(
    SlowDataset(160, sleep_read(0.001)), batch_size=vary(16, 10), num_workers=1, persistent_workers=True
)
loaderwatch.attach(loader)
loaderwatch.attach(validation, role="eval")


def validate(epoch: int) -> None:
    """Half a second."""
    for _ in validation:
        time.sleep(0.03)


train(loader, step_s=vary(0.04, 0.05), seconds=16, each_epoch=validate)
