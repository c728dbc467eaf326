"""N15: training stops early (max_steps) with persistent workers; the script then does something else."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read

loader = DataLoader(
    SlowDataset(100_000, sleep_read(0.002)), batch_size=8, num_workers=2, persistent_workers=True
)
loaderwatch.attach(loader)
for number, _ in enumerate(loader):
    time.sleep(0.05)
    if number == 80:
        break
time.sleep(12)
