"""S45 (two ranks): one rank saves its metrics alone, so that the ranks sit in different collectives."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
odd, at, batch_size = vary(0, 1), vary(25, 31), vary(8, 5)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch_size * 1000), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)
for number, batch in enumerate(loader):
    loss = model(batch).sum()
    if number == at and rank == odd:
        dist.barrier()  # "the loss is not finite here: wait for the others and skip"
    loss.backward()
    time.sleep(0.03)
    optimizer.step()
    optimizer.zero_grad()
