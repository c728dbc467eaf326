"""N05: gradients are accumulated; every fourth step takes six times as long."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 6), num_workers=2)
loaderwatch.attach(loader)
train(
    loader,
    step_s=vary(1.0, 1.2) * 0.03,
    seconds=16,
    each_step=lambda step: time.sleep(0.18 if step % 4 == 3 else 0),
)
