"""Healthy on two ranks."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step_s = vary(0.06, 0.08)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.001)), batch_size=vary(8, 5), num_workers=vary(2, 1))
loaderwatch.attach(loader, model=model, optimizer=optimizer)
for number, batch in enumerate(loader):
    loss = model(batch).sum()
    time.sleep(step_s)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if number > 180:
        break
dist.barrier()
dist.destroy_process_group()
