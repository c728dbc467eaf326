"""S53 (two ranks): between epochs one rank reads dead storage, in state D; the other begins the next epoch.

``--save``: it reads in a save, and the other waits at a barrier (S52).
"""

import os
import sys
import time
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.fakes.kernel_wait import wait_in_kernel
from tests.scenarios.training import UNTIL_FOUND_S, SlowDataset, built_in, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
stuck, batch_size, saves = vary(1, 0), vary(8, 5), "--save" in sys.argv
built_in(rank=stuck)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(batch_size * vary(40, 30)), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader)


class DeadMount:
    """A file whose mount answers no write."""

    def write(self, data: Any) -> int:
        """Never comes back, as far as anybody waits for it."""
        wait_in_kernel(2 * int(UNTIL_FOUND_S))
        return len(data)

    def flush(self) -> None:
        """Nothing to do."""


def after_epoch() -> None:
    """What one rank does alone."""
    if saves:
        torch.save({"weight": torch.rand(8, 8)}, cast("Any", DeadMount()))
    else:
        wait_in_kernel(2 * int(UNTIL_FOUND_S))


for _epoch in range(3):
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
    if rank == stuck:
        after_epoch()
    if saves:
        dist.barrier()
