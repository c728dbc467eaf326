"""S31: every epoch is left while a worker is in the middle of a long read."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, vary

BATCH, LAST, LONG_S = vary(8, 4, 16), vary(11, 15), vary(3.0, 2.5)


def read(index: int) -> None:
    """What comes after the break is slow."""
    time.sleep(LONG_S if index >= BATCH * (LAST + 3) else 0.04 / BATCH)


loader = DataLoader(SlowDataset(10_000, read), batch_size=BATCH, num_workers=2)
loaderwatch.attach(loader)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for number, _ in enumerate(loader):
        time.sleep(0.05)
        if number == LAST:
            break
