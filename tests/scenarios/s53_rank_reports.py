"""S53 (two ranks): rank 0 writes its metrics to a pipe that nobody empties, the other waits at a barrier."""

import os
import time

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
size = vary(8, 5)
built_in(rank=0)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(size * 50), batch_size=size, num_workers=1, persistent_workers=True)
loaderwatch.attach(loader)
_nobody, metrics = os.pipe()


def write_metrics() -> None:
    """More than the pipe holds, after a while."""
    os.write(metrics, b"loss 0.1\n" * 4000)


def run_epoch() -> None:
    """One pass."""
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()


for _epoch in range(6):
    run_epoch()
    if rank == 0:
        write_metrics()
    dist.barrier()
