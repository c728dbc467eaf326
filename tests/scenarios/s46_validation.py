"""S46 (two ranks): validation through the wrapped model with unequal batches; the next epoch never begins.

``--advised`` follows the advice: validation uses the model inside the wrapper, without gradients.
``--no-buffer-sync`` follows the alternative: the wrapper copies no buffers.
"""

import inspect
import os
import sys
import time
from typing import Any

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
options: dict[str, Any] = {}
if "--no-buffer-sync" in sys.argv:  # the name changed with torch 2.13
    known = inspect.signature(DistributedDataParallel).parameters
    options = {"forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers": False}
layers = nn.Sequential(nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
model = DistributedDataParallel(layers, **options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
longer, batch_size, steps = vary(0, 1), vary(8, 5), vary(30, 24)
loader = DataLoader(SlowDataset(batch_size * steps), batch_size=batch_size, num_workers=1)
validation = DataLoader(SlowDataset(batch_size * (6 if rank == longer else 4)), batch_size=batch_size)
loaderwatch.attach(loader)
loaderwatch.attach(validation, role="eval")
for _epoch in range(3):
    model.train()  # type: ignore[no-untyped-call]
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    if "--advised" in sys.argv:
        with torch.no_grad():
            for batch in validation:
                model.module(batch)
    else:
        for batch in validation:
            model(batch)
dist.barrier()
dist.destroy_process_group()
