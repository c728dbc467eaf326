"""S32: next(iter(loader)) in every step."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, vary

step_s = vary(0.03, 0.04)
loader = DataLoader(SlowDataset(10_000), batch_size=vary(8, 4, 16), num_workers=2)
loaderwatch.attach(loader)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    next(iter(loader))
    time.sleep(step_s)
