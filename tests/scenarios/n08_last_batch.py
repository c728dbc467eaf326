"""N08: short epochs whose last batch is smaller, and takes a little longer."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

size = vary(8, 6)
loader = DataLoader(
    SlowDataset(size * 30 + vary(3, 1), sleep_read(0.002)),
    batch_size=size,
    num_workers=vary(2, 3),
    persistent_workers=True,
)
loaderwatch.attach(loader)
deadline = time.monotonic() + 16
while time.monotonic() < deadline:
    for batch in loader:
        time.sleep(0.05 if len(batch) == size else 0.15)
