"""S56: every rank saves its own shard, by hand and in pieces, beside a log that it writes all the time."""

import os
import pickle
from pathlib import Path

import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, sleep_read, train, vary

rank = int(os.environ["RANK"])
loader = DataLoader(SlowDataset(100_000, sleep_read(0.002)), batch_size=4, num_workers=2)
loaderwatch.attach(loader)
state = [torch.rand(256, 1024).numpy() for _ in range(vary(6, 5))]
log = Path(f"/media/rank{rank}.log").open("a", buffering=1)  # noqa: SIM115 - open until the process ends


def each_step(step: int) -> None:
    """Log every step, save every hundredth."""
    log.write(f"step {step} loss 0.1\n")
    if step % 100 == 99:
        with Path(f"/media/rank{rank}-step{step}.pkl").open("wb") as file:
            for part in state:
                pickle.dump(part, file)


train(loader, step_s=0.05, seconds=UNTIL_FOUND_S, each_step=each_step)
