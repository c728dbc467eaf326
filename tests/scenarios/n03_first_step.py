"""N03: the first step compiles for ten seconds."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 6), num_workers=2)
loaderwatch.attach(loader)
train(
    loader,
    step_s=vary(1.0, 1.2) * 0.05,
    seconds=16,
    each_step=lambda step: time.sleep(10 if step == 0 else 0),
)
