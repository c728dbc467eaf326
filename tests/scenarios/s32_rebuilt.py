"""S32: next(iter(loader)) in every step."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset

loader = DataLoader(SlowDataset(10_000), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
deadline = time.monotonic() + 20
while time.monotonic() < deadline:
    next(iter(loader))
    time.sleep(0.03)
