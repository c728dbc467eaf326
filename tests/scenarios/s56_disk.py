"""S56: a checkpoint every few seconds, and none is ever deleted, on a disk that is too small for them.

With ``--fast`` the disk is full before any alert, and training dies of it.
"""

import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, train, vary

fast = "--fast" in sys.argv
every = 20 if fast else vary(100, 120)
loader = DataLoader(
    SlowDataset(8 * every, sleep_read(0.002)), batch_size=8, num_workers=2, persistent_workers=True
)
loaderwatch.attach(loader)
state = {f"layer{number}.weight": torch.rand(vary(256, 224), 1024) for number in range(12)}


def save(epoch: int) -> None:
    """One file for each epoch."""
    torch.save(state, Path("/media") / f"epoch-{epoch}.pt")


train(loader, step_s=0.05, seconds=UNTIL_FOUND_S, each_epoch=save)
