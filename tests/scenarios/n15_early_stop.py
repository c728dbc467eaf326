"""N15: training stops early (max_steps) with persistent workers; the script then does something else."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

last = vary(80, 65)
loader = DataLoader(
    SlowDataset(100_000, sleep_read(0.002)),
    batch_size=vary(8, 5),
    num_workers=vary(2, 3),
    persistent_workers=True,
)
loaderwatch.attach(loader)
for number, _ in enumerate(loader):
    time.sleep(0.05)
    if number == last:
        break
time.sleep(12)
