"""S53 (two ranks, ``loaderwatch run``): a rank waits for a file lock before it joins; no loader exists."""

import fcntl
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from tests.scenarios.training import SlowDataset, built_in, vary

rank = int(os.environ["RANK"])
stuck = vary(1, 0)
built_in(rank=stuck)
torch.set_num_threads(1)


def fetch_weights() -> None:
    """As caches of models do: another process holds the lock, and never lets go."""
    with tempfile.TemporaryFile() as held, Path(f"/proc/self/fd/{held.fileno()}").open("rb") as mine:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(mine, fcntl.LOCK_EX)


if rank == stuck:
    fetch_weights()
dist.init_process_group("gloo")
dataset = SlowDataset(400)
for _ in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset), num_workers=1):
    time.sleep(0.03)
