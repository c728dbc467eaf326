"""Healthy: a real checkpoint after each epoch, synced to disk, half a second at least."""

import os
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train

loader = DataLoader(SlowDataset(800, sleep_read(0.002)), batch_size=8, num_workers=2, persistent_workers=True)
loaderwatch.attach(loader)
state = {f"layer{number}.weight": torch.rand(256, 1024) for number in range(16)}

with tempfile.TemporaryDirectory() as folder:

    def save(epoch: int) -> None:
        """To storage that takes its time."""
        with (Path(folder) / "last.pt").open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        time.sleep(0.4)

    train(loader, step_s=0.04, seconds=16, each_epoch=save)
