"""S18 (two ranks): rank 0 reads for all and sends each rank its batch, as Accelerate dispatches batches."""

import os
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

batch_size, cost_s = vary(8, 4, 12), vary(0.006, 0.01)
torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
STEPS = 400


def dispatched(source: Iterator[Tensor] | None) -> Iterator[Tensor]:
    """This rank's batches: rank 0 reads one for each rank, and everybody gets theirs."""
    for _ in range(STEPS):
        parts = [next(source) for _ in range(world)] if source is not None else None
        mine = torch.empty(batch_size, 16)
        dist.scatter(mine, parts)
        yield mine


source = None
if rank == 0:
    reader = DataLoader(
        SlowDataset(1_000_000, sleep_read(cost_s)), batch_size=batch_size, num_workers=vary(2, 3)
    )
    loaderwatch.attach(reader)
    source = iter(reader)
until = time.monotonic() + 25
for batch in loaderwatch.attach(dispatched(source), name="dispatched"):
    loss = model(batch).sum()
    time.sleep(0.02)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if time.monotonic() > until:
        break
