"""S22: a pattern that backtracks for ever on sample 333."""

import re

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train


def read(index: int) -> None:
    """Parses a caption."""
    if index == 333:
        re.match(r"(a+)+$", "a" * 40 + "b")


loader = DataLoader(SlowDataset(100_000, read), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.05, seconds=60)
