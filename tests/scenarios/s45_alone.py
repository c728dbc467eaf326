"""S45 (two ranks): one rank enters a collective alone, at one of several places (first argument)."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import GIVE_UP, SlowDataset, vary

torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=GIVE_UP)
WHERE, RANK = sys.argv[1], int(os.environ["RANK"])
ODD, BATCH = vary(0, 1), vary(8, 4)
"""The rank that does what the other does not."""


def gather(value: Tensor) -> Tensor:
    """All ranks' values, shape (ranks,)."""
    found = [torch.zeros(()) for _ in range(dist.get_world_size())]
    dist.all_gather(found, value)
    return torch.stack(found)


def save_checkpoint(model: nn.Module) -> None:
    """Writes, and waits for the others to see it."""
    torch.save(model.state_dict(), os.devnull)
    dist.barrier()


def validate(model: nn.Module) -> None:
    """Averages its result over all ranks."""
    with torch.no_grad():
        loss = model(torch.randn(32, 16)).square().mean()
    gather(loss)


def build_index(folder: Path) -> None:
    """Prepares what all ranks read, and waits until all have come."""
    time.sleep(1.0)
    (folder / "index").exists()
    dist.barrier()


def skip_overflow() -> None:
    """Agrees with the other ranks to leave a batch out."""
    gather(torch.ones(()))


class TwoWays(nn.Module):
    """A layer that exchanges statistics, on one of two ways through it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, batch: Tensor) -> Tensor:
        if WHERE == "branch" and RANK == ODD and len(seen) > 30:
            batch = batch - gather(batch.detach().mean()).mean()
        result: Tensor = self.first(batch) + self.second(batch)
        return result


seen: list[int] = []
model = DistributedDataParallel(TwoWays())
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = DataLoader(SlowDataset(60 * BATCH), batch_size=BATCH, num_workers=1, persistent_workers=True)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
try:
    for epoch in range(60):
        for batch in loader:
            seen.append(len(seen))
            loss = model(batch).square().mean()
            if WHERE == "step" and RANK == ODD and len(seen) == 40:
                skip_overflow()
            if WHERE == "error" and RANK == ODD and len(seen) == 40:
                raise ValueError("a sample without a label")
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.03)
        if RANK == ODD and epoch == 1 and WHERE == "checkpoint":
            save_checkpoint(model.module)
        if RANK == ODD and epoch == 1 and WHERE == "cache":
            build_index(Path(os.devnull).parent)
        if RANK == ODD and epoch == 1 and WHERE == "evaluation":
            validate(model.module)
finally:
    if WHERE == "error":
        dist.barrier()  # "wait for the others, and then end together"
    dist.destroy_process_group()
