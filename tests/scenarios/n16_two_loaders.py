"""N16: a loop over two loaders (zip). One is much slower per batch than the other, but fast enough."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

labelled = DataLoader(SlowDataset(100_000, sleep_read(0.001)), batch_size=vary(8, 4), num_workers=1)
unlabelled = DataLoader(SlowDataset(100_000, sleep_read(0.004)), batch_size=vary(8, 6), num_workers=2)
loaderwatch.attach(labelled, name="labelled")
loaderwatch.attach(unlabelled, name="unlabelled")
deadline = time.monotonic() + 16
for _ in zip(labelled, unlabelled, strict=False):
    time.sleep(0.06)
    if time.monotonic() > deadline:
        break
