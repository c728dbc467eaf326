"""S53 (two ranks): at the end one rank sends results to a silent service; the other is in a barrier."""

import os
import socket
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, vary

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
stuck, batch_size = vary(0, 1), vary(8, 5)
built_in(rank=stuck)
model = DistributedDataParallel(nn.Linear(16, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)
service = socket.create_server(("127.0.0.1", 0))


def send_results() -> None:
    """Without a timeout."""
    with socket.create_connection(service.getsockname()) as connection:
        connection.sendall(b"done\n")
        connection.recv(1)


for _ in range(2):
    for batch in loader:
        model(batch).sum().backward()
        time.sleep(0.03)
        optimizer.step()
        optimizer.zero_grad()
if rank == stuck:
    send_results()
dist.barrier()
dist.destroy_process_group()
