"""N22: a checkpoint goes to slow storage, a little at a time, for longer than the hang limit of the test."""

import os
import threading
import time

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

loader = DataLoader(
    SlowDataset(vary(8, 5) * 60, sleep_read(0.002)), batch_size=vary(8, 5), num_workers=vary(2, 1)
)
loaderwatch.attach(loader)
storage, upload = os.pipe()


def take() -> None:
    """What slow storage takes: 64 KiB every so often."""
    while os.read(storage, 65536):
        time.sleep(0.6)


threading.Thread(target=take, daemon=True).start()


def save(epoch: int) -> None:
    """About 12 s, after the first epoch and before there is a history."""
    if epoch == 0:
        with os.fdopen(os.dup(upload), "wb", buffering=0) as file:
            for _part in range(20):
                torch.save({"weight": torch.rand(vary(128, 120), 128)}, file)


train(loader, step_s=0.03, seconds=20, each_epoch=save)
