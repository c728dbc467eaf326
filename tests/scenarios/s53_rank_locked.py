"""S53 (two ranks): between epochs one rank waits for a held lock; the other has begun the next epoch."""

import os
import threading
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
stuck, batch_size, last = vary(1, 0), vary(8, 5), vary(1, 0)
built_in(rank=stuck)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(
    SlowDataset(batch_size * vary(40, 30)), batch_size=batch_size, num_workers=1, persistent_workers=True
)
loaderwatch.attach(loader)
held = threading.Lock()


def log_metrics(epoch: int) -> None:
    """One rank takes the lock, and later waits for it, as nobody let it go."""
    if rank == stuck and epoch in (0, last + 1):
        held.acquire()


for epoch in range(4):
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
    log_metrics(epoch)
