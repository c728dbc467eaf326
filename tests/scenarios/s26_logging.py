"""S26: every twentieth step writes a picture of everything, synchronously."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

every = vary(20, 15)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=2)
loaderwatch.attach(loader)
train(
    loader,
    step_s=0.04,
    each_step=lambda step: time.sleep(0.9 if step % every == every - 1 else 0),
)
