"""S26: every twentieth step writes a summary synchronously, which takes as long as the steps between."""

import json
import os
import tempfile
from pathlib import Path

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, train, vary

every = vary(20, 15)
folder = Path(tempfile.mkdtemp())


def write_summary(step: int) -> None:
    if step % every != every - 1:
        return
    for part in range(12):
        with (folder / f"{part}.json").open("w") as file:
            json.dump({str(number): number * 0.5 for number in range(60_000)}, file)
            file.flush()
            os.fsync(file.fileno())


loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=8, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.04, each_step=write_summary)
