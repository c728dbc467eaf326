"""S43 (two ranks): one rank reads many times slower, and the other waits for it in backward."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, sleep_read, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
slow, batch_size, cost_s, step_s = vary(1, 0), vary(8, 5), vary(0.2, 0.15), vary(0.02, 0.03)
built_in(rank=slow)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(
    SlowDataset(100_000, sleep_read(cost_s / batch_size if rank == slow else 0.001)),
    batch_size=batch_size,
    num_workers=2,
)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
for number, batch in enumerate(loader):
    loss = model(batch).sum()
    time.sleep(step_s)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if number > 200:
        break
