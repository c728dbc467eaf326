"""N01: long validations, once through a watched loader, once through one nobody watches."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, sleep_read, train, vary

loader = DataLoader(
    SlowDataset(320, sleep_read(0.002)), batch_size=vary(8, 6), num_workers=2, persistent_workers=True
)
validation = DataLoader(SlowDataset(200, sleep_read(0.01)), batch_size=8, num_workers=0)
loaderwatch.attach(loader)
loaderwatch.attach(validation, role="eval")


def validate(epoch: int) -> None:
    """Slow, and slower than the hang limit of the test."""
    if epoch % 2:
        for _ in validation:
            time.sleep(0.05)
    else:
        for _ in range(70):
            burn(0.02)
            time.sleep(0.08)


train(loader, step_s=vary(1.0, 1.2) * 0.05, seconds=18, each_epoch=validate)
