"""S44 (two ranks): one rank has 34 batches, the other 30."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import GIVE_UP, SlowDataset, built_in, vary

torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=GIVE_UP)
rank = int(os.environ["RANK"])
longer, batch, most = vary(1, 0), vary(8, 4), vary(34, 33, 40)
built_in(rank=longer)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch * (most if rank == longer else 30)), batch_size=batch, num_workers=1)
loaderwatch.attach(loader)
for inputs in loader:
    model(inputs).sum().backward()
    time.sleep(0.03)
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
