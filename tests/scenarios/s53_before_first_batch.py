"""S53 (two ranks, ``loaderwatch run``): one rank asks a silent service; the other waits in a broadcast."""

import socket
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

from tests.scenarios.training import SlowDataset, built_in, vary

dist.init_process_group("gloo")
rank = dist.get_rank()
stuck = vary(0, 1)
built_in(rank=stuck)
torch.set_num_threads(1)
service = socket.create_server(("127.0.0.1", 0))


def read_manifest() -> torch.Tensor:
    """Without a timeout."""
    with socket.create_connection(service.getsockname()) as connection:
        connection.sendall(b"which files?\n")
        return torch.tensor([len(connection.recv(64))])


length = torch.zeros(1, dtype=torch.int64)
if rank == stuck:
    length = read_manifest()
dist.broadcast(length, src=stuck)
dataset = SlowDataset(int(length))
for _ in DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset), num_workers=1):
    time.sleep(0.03)
