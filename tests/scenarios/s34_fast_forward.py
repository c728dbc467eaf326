"""S34 and N11: a resumed run reads and discards what it has already seen. Argument: for how many seconds."""

import sys
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

skip_s = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0
loader = DataLoader(
    SlowDataset(100_000, sleep_read(vary(0.004, 0.002))), batch_size=vary(8, 4), num_workers=2
)
loaderwatch.attach(loader)
batches = iter(loader)
until = time.monotonic() + skip_s
skipped = 0
while time.monotonic() < until:
    next(batches)
    skipped += 1
print(f"skipped {skipped} batches")
until = time.monotonic() + 8
for _ in batches:
    time.sleep(0.05)
    if time.monotonic() > until:
        break
