"""S21: now and then a read takes 1.2 s, always another one; two batches per worker are read ahead."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train


def read(index: int) -> None:
    """A hiccup every 270 samples."""
    time.sleep(1.2 if index % 270 == 100 else 0.002)


loader = DataLoader(SlowDataset(100_000, read), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.06, seconds=20)
