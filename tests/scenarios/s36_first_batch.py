"""S36: the first batch never comes: a worker's first sample waits for storage that never answers."""

import socket

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, train, vary

worker, batch = vary(0, 1), vary(8, 5)
built_in(worker=worker, samples=[worker * batch])
service = socket.create_server(("127.0.0.1", 0))


def read(index: int) -> None:
    """The connection of one worker is accepted by nobody."""
    if index == worker * batch:
        with socket.create_connection(service.getsockname()) as connection:
            connection.sendall(b"get 0\n")
            connection.recv(1)


loader = DataLoader(SlowDataset(4000, read), batch_size=batch, num_workers=2)
loaderwatch.attach(loader)
train(loader, step_s=0.05, seconds=600)
