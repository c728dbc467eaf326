"""S02: two workers that each need eight steps' time for a batch."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(100_000, sleep_read(0.02)), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.02, seconds=20)
