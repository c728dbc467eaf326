"""S36: somebody stops a worker."""

import os
import signal
import sys
from typing import Any

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, sleep_read, vary

stopped, after = vary(1, 0), vary(40, 33)
built_in(worker=stopped)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=vary(8, 4), num_workers=2)
loaderwatch.attach(loader)
batches: Any = iter(loader)
for number, _ in enumerate(batches):
    sleep_read(0.05)(0)
    if number == after:
        worker = batches._workers[stopped].pid
        print(f"stopping {worker}", file=sys.stderr)
        os.kill(worker, signal.SIGSTOP)
