"""S53 (two ranks): after the last epoch one rank waits for a file lock; the other is at its exit.

Python's shutdown releases the process group, which waits for an all_reduce that the two have under way.
"""

import fcntl
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
stuck, batch_size = vary(0, 1), vary(8, 5)
built_in(rank=stuck)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)


def write_results() -> None:
    """Another process holds the lock, and never lets go."""
    with tempfile.TemporaryFile() as held, Path(f"/proc/self/fd/{held.fileno()}").open("rb") as mine:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.flock(mine, fcntl.LOCK_EX)


for _ in range(2):
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
if rank == stuck:
    write_results()
last = dist.all_reduce(torch.ones(1), async_op=True)
dist.destroy_process_group()
