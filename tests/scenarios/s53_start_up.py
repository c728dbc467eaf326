"""S53 (two ranks): one rank waits for a file lock before it joins the process group that the other is in."""

import fcntl
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, vary

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
stuck = vary(1, 0)
built_in(rank=stuck)
loader = loaderwatch.attach(DataLoader(SlowDataset(400), batch_size=8, num_workers=1))


def download_tokenizer() -> None:
    """As caches of models do: another process holds the lock, and never lets go."""
    with tempfile.TemporaryFile() as held, Path(f"/proc/self/fd/{held.fileno()}").open("rb") as mine:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(mine, fcntl.LOCK_EX)


if rank == stuck:
    download_tokenizer()
dist.init_process_group("gloo")
for _ in loader:
    time.sleep(0.03)
