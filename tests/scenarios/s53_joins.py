"""S53 (two ranks): after training one rank joins a child that waits for a reader of its queue; the other is at the last barrier."""

import multiprocessing
import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
stuck, batch_size = vary(1, 0), vary(8, 5)
built_in(rank=stuck)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)


def predict(found: "multiprocessing.Queue[bytes]") -> None:
    """It ends only when somebody has read what it put there."""
    found.put(bytes(4_000_000))


def collect_predictions() -> None:
    """Joins before it reads, as the docs of multiprocessing warn of."""
    found: multiprocessing.Queue[bytes] = multiprocessing.Queue()
    child = multiprocessing.Process(target=predict, args=(found,))
    child.start()
    child.join()


for _ in range(2):
    for _batch in loader:
        time.sleep(0.03)
if rank == stuck:
    collect_predictions()
dist.barrier()
dist.destroy_process_group()
