"""S44 (two ranks): rank 1 has 34 batches, rank 0 has 30."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(8 * (34 if rank == 1 else 30)), batch_size=8, num_workers=1)
loaderwatch.attach(loader)
for batch in loader:
    model(batch).sum().backward()
    time.sleep(0.03)
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
