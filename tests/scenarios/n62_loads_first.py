"""N62: ranks that read their data set into memory before they train. They grow for 20 s, then no more."""

import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from tests.scenarios.training import vary

COLUMNS = 25

torch.set_num_threads(1)
dist.init_process_group("gloo")
parts = []
for _ in range(40):
    parts.append(torch.ones(vary(5_000_000, 4_000_000)))
    time.sleep(0.5)
model = DistributedDataParallel(nn.Linear(COLUMNS, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for number, (rows,) in enumerate(DataLoader(TensorDataset(parts[0].view(-1, COLUMNS)), batch_size=64)):
    model(rows).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.05)
    if number == 150:
        break
dist.destroy_process_group()
