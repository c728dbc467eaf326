"""N18: batches of video that take seconds, by nature, and are there in time."""

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(
    SlowDataset(100_000, sleep_read(vary(1.0, 1.2))), batch_size=2, num_workers=vary(3, 4), prefetch_factor=2
)
loaderwatch.attach(loader)
train(loader, step_s=1.3, seconds=26)
