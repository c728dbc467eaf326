"""S26: every few steps the loop polls for a file of another process and sleeps between two checks."""

import multiprocessing
import os
import tempfile
import time
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

EVERY = vary(8, 6)


def evolve(folder: Path, takes_s: float) -> None:
    """Write one generation of settings after the other; each takes its time once the one before was taken."""
    for number in range(10_000):
        while number and (folder / str(number - 1)).exists():
            time.sleep(0.02)
        time.sleep(takes_s)
        (folder / "next").write_text(str(number))
        (folder / "next").rename(folder / str(number))


def next_settings(folder: Path, number: int) -> None:
    """Take the settings of a generation."""
    path = folder / str(number)
    while not path.exists():
        time.sleep(0.25)
    path.unlink()


if __name__ == "__main__":
    shared = Path(tempfile.mkdtemp())
    multiprocessing.Process(target=evolve, args=(shared, vary(0.6, 0.8)), daemon=True).start()
    batch_size = vary(8, 5)
    loader = DataLoader(
        SlowDataset(batch_size * 5000, sleep_read(0.001)), batch_size=batch_size, num_workers=2
    )
    loaderwatch.attach(loader)
    train(
        loader,
        step_s=0.03,
        each_step=lambda step: next_settings(shared, step // EVERY) if step % EVERY == EVERY - 1 else None,
    )
    os._exit(0)
