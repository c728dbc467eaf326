"""S45 (two ranks): each rank of a ring sends before it receives, tensors too large to be buffered."""

import itertools
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
at, batch_size = vary(60, 45), vary(8, 5)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch_size * 1000), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)


def pass_on(heavy: torch.Tensor) -> torch.Tensor:
    """Give a tensor to the next rank, and return that of the one before."""
    got = torch.empty_like(heavy)
    dist.send(heavy, dst=(rank + 1) % world)
    dist.recv(got, src=(rank - 1) % world)
    return got


for number, batch in enumerate(itertools.cycle(loader)):
    optimizer.zero_grad()
    model(batch).square().mean().backward()
    optimizer.step()
    time.sleep(0.03)
    if number == at:
        pass_on(torch.zeros(8_000_000))
