"""S36: reading sample 333 waits for an answer that never comes."""

import os

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train


def read(index: int) -> None:
    """Asks storage that has gone silent."""
    if index == 333:
        answer, _ = os.pipe()
        os.read(answer, 1)


loader = DataLoader(SlowDataset(100_000, read), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.05, seconds=60)
