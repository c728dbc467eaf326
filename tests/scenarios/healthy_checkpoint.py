"""Healthy: a real checkpoint after each epoch, synced to disk, half a second at least."""

import os
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

batch, save_s = vary(8, 5), vary(0.4, 0.7)
loader = DataLoader(
    SlowDataset(100 * batch, sleep_read(0.002)),
    batch_size=batch,
    num_workers=vary(2, 3),
    persistent_workers=True,
)
loaderwatch.attach(loader)
state = {f"layer{number}.weight": torch.rand(256, 1024) for number in range(16)}

with tempfile.TemporaryDirectory() as folder:

    def save(epoch: int) -> None:
        """To storage that takes its time."""
        with (Path(folder) / "last.pt").open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        time.sleep(save_s)

    train(loader, step_s=vary(0.04, 0.05), seconds=16, each_epoch=save)
