"""S52 (two ranks): one rank saves to a full pipe without a reader; the other waits at a barrier."""

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
saves, batch_size = vary(0, 1), vary(8, 5)
built_in(rank=saves)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch_size * vary(40, 30)), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)
_silent, full = os.pipe()


def upload() -> None:
    """To what should take it."""
    with os.fdopen(os.dup(full), "wb") as file:
        torch.save({"weight": torch.rand(256, 256)}, file)


for _epoch in range(3):
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
    if rank == saves:
        upload()
    dist.barrier()
