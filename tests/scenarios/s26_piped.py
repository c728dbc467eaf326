"""S26: every step sends its pictures through a pipe to a viewer that reads slower than the loop writes."""

import os
import time
from multiprocessing import get_context

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

picture = bytes(vary(400_000, 300_000))
outlet, inlet = os.pipe()


def view() -> None:
    """Draw what comes, 64 KiB at a time."""
    os.close(inlet)
    while os.read(outlet, 65_536):
        time.sleep(0.015)


get_context("fork").Process(target=view, daemon=True).start()
os.close(outlet)


def show_picture(step: int) -> None:
    left = memoryview(picture)
    while left:
        left = left[os.write(inlet, left) :]


loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.04, each_step=show_picture)
