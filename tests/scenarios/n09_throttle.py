"""N09: a pause on purpose, every few steps and between epochs, longer than the hang limit of the test."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batch, every = vary(8, 5), vary(15, 12)
loader = DataLoader(
    SlowDataset(90 * batch, sleep_read(0.002)), batch_size=batch, num_workers=2, persistent_workers=True
)
loaderwatch.attach(loader)
train(
    loader,
    step_s=0.04,
    seconds=24,
    each_epoch=lambda epoch: time.sleep(2),  # as mmcv does "to prevent possible deadlock"
    each_step=lambda step: time.sleep(
        vary(8.0, 7.0) if step == 80 else 0.4 if step % every == every - 1 else 0
    ),
)
