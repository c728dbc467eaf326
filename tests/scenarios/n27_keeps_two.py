"""N27: a checkpoint every few seconds; the newest two are kept, on a disk with room for seven."""

from pathlib import Path

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(SlowDataset(800, sleep_read(0.002)), batch_size=8, num_workers=2, persistent_workers=True)
loaderwatch.attach(loader)
state = {f"layer{number}.weight": torch.rand(256, 1024) for number in range(20)}
kept: list[Path] = []


def save(epoch: int) -> None:
    """Write the new one before the oldest goes."""
    kept.append(Path("/media") / f"epoch-{epoch}.pt")
    torch.save(state, kept[-1])
    if len(kept) > 2:
        kept.pop(0).unlink()


train(loader, step_s=vary(0.05, 0.04), seconds=45, each_epoch=save)
