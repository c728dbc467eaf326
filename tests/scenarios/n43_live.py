"""N43: a model trains on the measurements of a machine, which arrive at their own pace."""

import multiprocessing
import socket
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import UNTIL_FOUND_S, vary

torch.set_num_threads(1)
RATE_HZ, VALUES = vary(100, 60), 256


def measure(listener: socket.socket) -> None:
    """Send measurements RATE_HZ times a second to all listeners."""
    connection, _ = listener.accept()
    random, began, number = np.random.default_rng(0), time.monotonic(), 0
    while True:
        connection.sendall(random.random(VALUES, dtype=np.float32).tobytes())
        number += 1
        time.sleep(max(0.0, began + number / RATE_HZ - time.monotonic()))


class Measurements(IterableDataset[Tensor]):
    def __init__(self, port: int) -> None:
        self.port = port

    def __iter__(self) -> Iterator[Tensor]:
        with (
            socket.create_connection(("127.0.0.1", self.port)) as connection,
            connection.makefile("rb") as stream,
        ):
            while row := stream.read(4 * VALUES):
                yield torch.from_numpy(np.frombuffer(row, np.float32).copy())


def main() -> None:
    """Train."""
    listener = socket.create_server(("127.0.0.1", 0))
    multiprocessing.Process(target=measure, args=(listener,), daemon=True).start()
    loader = DataLoader(Measurements(listener.getsockname()[1]), batch_size=vary(16, 8), num_workers=1)
    model = nn.Sequential(nn.Linear(VALUES, 512), nn.ReLU(), nn.Linear(512, VALUES))
    optimizer = torch.optim.Adam(model.parameters())
    loaderwatch.attach(loader, model=model, optimizer=optimizer)
    deadline = time.monotonic() + UNTIL_FOUND_S
    for rows in loader:
        optimizer.zero_grad()
        (model(rows) - rows).square().mean().backward()
        optimizer.step()
        if time.monotonic() > deadline:
            break


if __name__ == "__main__":
    main()
