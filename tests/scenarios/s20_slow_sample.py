"""S20: sample 333 takes two seconds."""

import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train


def read(index: int) -> None:
    """One long video among short ones."""
    time.sleep(2.0 if index == 333 else 0.002)


loader = DataLoader(SlowDataset(640, read), batch_size=8, num_workers=2, persistent_workers=True)
loaderwatch.attach(loader)
train(loader, step_s=0.04, seconds=20)
