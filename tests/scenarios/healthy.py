"""Healthy: workers keep up, epochs are long, the loader is as it should be."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(
    SlowDataset(1600, sleep_read(0.002)), batch_size=vary(8, 6), num_workers=2, persistent_workers=True
)
loaderwatch.attach(loader)
train(loader, step_s=vary(1.0, 1.2) * 0.05, seconds=14)
