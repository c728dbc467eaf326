"""S01: num_workers=0, every batch is read on the training thread."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batch = vary(8, 4, 16)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.04 / batch * vary(1.0, 1.5))), batch_size=batch)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.02, 0.03))
