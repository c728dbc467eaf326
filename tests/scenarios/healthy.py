"""Healthy: workers keep up, epochs are long, the loader is as it should be."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(
    SlowDataset(1600, sleep_read(vary(0.002, 0.003, 0.001))),
    batch_size=vary(8, 6, 4),
    num_workers=vary(2, 3),
    shuffle=vary(False, True),
    persistent_workers=vary(True, False),
)
loaderwatch.attach(loader)
train(loader, step_s=vary(1.0, 1.2) * 0.05, seconds=14)
