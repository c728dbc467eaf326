"""S48 (two ranks, simulated GPUs): one GPU gets too hot and clocks down; both ranks slow down with it."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from loaderwatch.demo.stand_in import SimulatedGpu, build, environment, write_script
from tests.scenarios.training import SlowDataset, built_in, sleep_read, vary

torch.set_num_threads(1)
rank = int(os.environ["RANK"])
hot, batch_size, after_s = vary(1, 0), vary(8, 5), vary(4, 6)
built_in(rank=hot, says=["thermal"])
folder = Path(os.environ["LOADERWATCH_DIR"]) / "gpus"
script = folder / "script"


def gpus(throttle: tuple[int, int] | None) -> list[SimulatedGpu]:
    """Both ranks' GPUs, busy throughout; one perhaps too hot."""
    return [
        SimulatedGpu(
            uuid=f"GPU-{number}",
            util_percent=95,
            pids=[pid or 0],
            throttle=throttle if number == hot else None,
        )
        for number, pid in enumerate(pids)
    ]


dist.init_process_group("gloo")
pids: list[int | None] = [None, None]
dist.all_gather_object(pids, os.getpid())
if rank == 0:
    build(folder)
    write_script(script, gpus(None))
dist.barrier()
os.environ.update(environment(folder / "libnvidia-ml.so.1", script))
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(SlowDataset(100_000, sleep_read(0.001)), batch_size=batch_size, num_workers=1)
loaderwatch.attach(loader, model=model, optimizer=optimizer)
began = time.monotonic()
throttled = False
for batch in loader:
    loss = model(batch).sum()
    time.sleep(0.09 if throttled and rank == hot else 0.05)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    elapsed = time.monotonic() - began
    if elapsed > after_s and not throttled:
        throttled = True
        if rank == 0:
            write_script(script, gpus((0x40, 1200)))
    if elapsed > 22:
        break
