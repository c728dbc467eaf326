"""S49: every sample is read under a lock on one file."""

import fcntl
import tempfile
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

guard = Path(tempfile.mkdtemp()) / "index.lock"
guard.touch()
read_s = vary(0.005, 0.008)


def read(index: int) -> None:
    """As a dataset on a shared index does."""
    with guard.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        time.sleep(read_s)


loader = DataLoader(SlowDataset(100_000, read), batch_size=vary(8, 6), num_workers=vary(3, 4))
loaderwatch.attach(loader)
train(loader, step_s=0.01)
