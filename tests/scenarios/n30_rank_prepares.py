"""N30 (two ranks, ``loaderwatch run``): rank 0 unpacks the data with another program; others wait."""

import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from tests.scenarios.training import SlowDataset, vary

PROGRAM = (
    "import time; until = time.monotonic() + 40\n"
    "while time.monotonic() < until: sum(range(10**5)); time.sleep(0.05)"
)
torch.set_num_threads(1)
dist.init_process_group("gloo")
if dist.get_rank() == vary(0, 1):
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
dist.barrier()
dataset = SlowDataset(400)
for _ in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset), num_workers=1):
    time.sleep(0.03)
dist.destroy_process_group()
