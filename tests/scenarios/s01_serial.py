"""S01: num_workers=0, every batch is read on the training thread."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(100_000, sleep_read(0.005)), batch_size=8)
loaderwatch.attach(loader)
train(loader, step_s=0.02, seconds=20)
