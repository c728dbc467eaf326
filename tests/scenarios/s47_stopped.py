"""S47's sibling: SIGSTOP stops one rank within an epoch; the others wait in the gradient exchange."""

import os
import signal
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
stopped, at = vary(1, 0), vary(60, 75)
built_in(rank=stopped)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(4000), batch_size=8, num_workers=1)
loaderwatch.attach(loader)
for number, batch in enumerate(loader):
    if (rank, number) == (stopped, at):
        os.kill(os.getpid(), signal.SIGSTOP)
    model(batch).sum().backward()
    time.sleep(0.03)
    optimizer.step()
    optimizer.zero_grad()
