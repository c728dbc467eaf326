"""S45: each rank stops early by its own validation loss; one reports, the other begins the next epoch."""

import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import loaderwatch
from tests.scenarios.training import GIVE_UP, vary

torch.set_num_threads(1)
PATIENCE = vary(2, 3)


def report_when_all_are_done(rank: int) -> None:
    """Wait for the files of all ranks."""
    folder = Path(tempfile.gettempdir()) / f"early-stop-{os.environ['MASTER_PORT']}"
    folder.mkdir(exist_ok=True)
    (folder / str(rank)).touch()
    while len(list(folder.iterdir())) < dist.get_world_size():
        time.sleep(0.5)


def validate(model: nn.Module, rank: int, epoch: int) -> float:
    """Rank 1's part of the data is another, and gets worse."""
    with torch.no_grad():
        own = float(model(torch.randn(64, 32)).square().mean())
    return own + (0.1 * epoch if rank == 1 else -0.1 * epoch)


dist.init_process_group("gloo", timeout=GIVE_UP)
rank = dist.get_rank()
data = TensorDataset(torch.randn(1600, 32))
sampler: DistributedSampler[object] = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=1)
model = DistributedDataParallel(nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
best, waited = float("inf"), 0
for epoch in range(200):
    sampler.set_epoch(epoch)
    for (inputs,) in loader:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
    loss = validate(model.module, rank, epoch)
    best, waited = min(best, loss), 0 if loss < best else waited + 1
    if waited >= PATIENCE:
        break
report_when_all_are_done(rank)
