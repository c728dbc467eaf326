"""S49's sibling: samples are unpacked into a shared folder under a ``filelock`` that retries every 50 ms."""

import tempfile
import time
from pathlib import Path

from filelock import FileLock, SoftFileLock
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary

folder = Path(tempfile.mkdtemp())
Lock = vary(FileLock, SoftFileLock)


def read(index: int) -> None:
    with Lock(folder / "unpack.lock"):
        time.sleep(0.02)


loader = DataLoader(SlowDataset(100_000, read), batch_size=4, num_workers=vary(4, 3))
loaderwatch.attach(loader)
train(loader, step_s=0.01)
