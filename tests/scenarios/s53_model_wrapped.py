"""S53 (two ranks, ``loaderwatch run``): one rank waits for a full pipe; the other wraps its model in DistributedDataParallel, which needs both."""

import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from tests.scenarios.training import SlowDataset, built_in, vary

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
stuck = vary(1, 0)
built_in(rank=stuck)
dist.init_process_group("gloo")


def log_config() -> None:
    """Whoever should read the log is gone, and holds it open."""
    _, log = os.pipe()
    for _ in range(100):
        os.write(log, b"lr=0.01\n" * 512)


if rank == stuck:
    log_config()
model = DistributedDataParallel(nn.Linear(16, 4))
for batch in DataLoader(SlowDataset(400), batch_size=8, num_workers=1):
    model(batch).sum().backward()
    time.sleep(0.03)
