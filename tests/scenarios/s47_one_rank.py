"""S47 (two ranks): after training, one rank prepares the next dataset while the other waits at a barrier."""

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
busy, at, batch_size = vary(0, 1), vary(30, 41), vary(8, 5)
built_in(rank=busy)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch_size * 1000), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)


def prepare() -> None:
    """Downloads, tokenizes, whatever takes this rank long."""
    time.sleep(60)


for number, batch in enumerate(loader):
    model(batch).sum().backward()
    time.sleep(0.03)
    optimizer.step()
    optimizer.zero_grad()
    if number == at:
        if rank == busy:
            prepare()
        dist.barrier()
