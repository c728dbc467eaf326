"""S31: every epoch is left while a worker is in the middle of a long read."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset


def read(index: int) -> None:
    """What comes after the break is slow."""
    time.sleep(3.0 if index >= 8 * 14 else 0.005)


loader = DataLoader(SlowDataset(10_000, read), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
deadline = time.monotonic() + 40
while time.monotonic() < deadline:
    for number, _ in enumerate(loader):
        time.sleep(0.05)
        if number == 11:
            break
