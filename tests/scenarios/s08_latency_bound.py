"""S08: many workers, all of which wait for storage."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(100_000, sleep_read(0.06)), batch_size=8, num_workers=6)
loaderwatch.attach(loader)
train(loader, step_s=0.02, seconds=20)
