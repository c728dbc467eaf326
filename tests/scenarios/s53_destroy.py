"""S53 (two ranks): one rank is stuck after training; the other leaves the group, which waits for an exchange with that one."""

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
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
stuck, batch_size = vary(0, 1), vary(8, 5)
built_in(rank=stuck)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)
loss = torch.zeros(1)


def write_report() -> None:
    """Another process holds the lock of the report, and never lets go."""
    with tempfile.TemporaryFile() as held, Path(f"/proc/self/fd/{held.fileno()}").open("rb") as mine:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(mine, fcntl.LOCK_EX)


for _ in range(2):
    for _batch in loader:
        time.sleep(0.03)
        dist.all_reduce(loss)
if rank == stuck:
    write_report()
dist.all_reduce(loss, async_op=True)  # nobody waits for it, but its group does
dist.destroy_process_group()
