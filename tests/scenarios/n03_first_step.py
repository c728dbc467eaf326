"""N03: the first step compiles for ten seconds."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.05, seconds=16, each_step=lambda step: time.sleep(10 if step == 0 else 0))
