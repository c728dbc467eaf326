"""N26 (two ranks): after the last epoch one rank evaluates past the hang limit while the other waits."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, burn, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
batch_size = vary(8, 5)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)
for _ in range(2):
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
if rank == vary(0, 1):
    for _ in range(45):
        burn(0.3)
        time.sleep(0.3)
dist.barrier()
dist.destroy_process_group()
