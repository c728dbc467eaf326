"""S30: epochs left early with persistent workers that have eight slow batches each in hand."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, vary

batch, last = vary(8, 4, 16), vary(11, 15)
loader = DataLoader(
    SlowDataset(10_000, sleep_read(0.2 / batch)),
    batch_size=batch,
    num_workers=2,
    prefetch_factor=vary(6, 5),
    persistent_workers=True,
)
loaderwatch.attach(loader)
deadline = time.monotonic() + UNTIL_FOUND_S
while time.monotonic() < deadline:
    for number, _ in enumerate(loader):
        time.sleep(0.12)
        if number == last:
            break
