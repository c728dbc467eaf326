"""S45 (two ranks): a rank reports an overflow by an all_reduce while the others all_reduce gradients."""

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
of_flags = dist.new_group()


def tell_of_overflow() -> None:
    """Have all ranks halve the scale; one that saw nothing does not come here."""
    dist.all_reduce(torch.ones(1), op=dist.ReduceOp.MAX, group=of_flags)


def average_gradients() -> None:
    """Average each gradient over the ranks."""
    for parameter in model.parameters():
        assert parameter.grad is not None
        dist.all_reduce(parameter.grad)
        parameter.grad /= world


for number, batch in enumerate(itertools.cycle(loader)):
    optimizer.zero_grad()
    loss = model(batch / 16_000).square().mean()
    if number == at and rank == 1:
        loss = loss * float("inf")
    if torch.isinf(loss) or torch.isnan(loss):
        tell_of_overflow()
        continue
    loss.backward()
    average_gradients()
    optimizer.step()
    time.sleep(0.03)
