"""S52: a checkpoint goes to a named pipe that nobody reads, within the epoch (``--between``: after it)."""

import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

between = "--between" in sys.argv
batch, at = vary(8, 5), vary(50, 61)
loader = DataLoader(
    SlowDataset(batch * (at if between else 1000), sleep_read(0.002)),
    batch_size=batch,
    num_workers=vary(2, 1),
)
loaderwatch.attach(loader)
state = {f"layer{number}.weight": torch.rand(64, 64) for number in range(4)}

with tempfile.TemporaryDirectory() as folder:
    pipe = Path(folder) / "last.pt"
    os.mkfifo(pipe)

    def save() -> None:
        """Never returns."""
        torch.save(state, pipe)

    for _epoch in range(3):
        for number, _batch in enumerate(loader):
            time.sleep(0.03)
            if number == at and not between:
                save()
        save()
