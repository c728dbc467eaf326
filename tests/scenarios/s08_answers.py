"""S08: a feature service answers each look-up at once, then suddenly takes far longer for all workers."""

import multiprocessing
import socket
import threading
import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary

SLOW_AFTER_S = vary(14.0, 17.0)
SLOW_S = vary(0.04, 0.06)


def serve(listener: socket.socket) -> None:
    """Answer the look-ups of each connection, later and later ones slowly."""
    began = time.monotonic()

    def answer(connection: socket.socket) -> None:
        while request := connection.recv(8):
            if time.monotonic() - began > SLOW_AFTER_S:
                time.sleep(SLOW_S)
            connection.sendall(request)

    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


class Features(Dataset[Tensor]):
    """Looks up each sample on a connection that each worker keeps."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection: socket.socket | None = None

    def __len__(self) -> int:
        return 60_000

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((16,), float(self.look_up(index)))

    def look_up(self, index: int) -> int:
        """Return the features of a sample."""
        if self.connection is None:
            self.connection = socket.create_connection(("127.0.0.1", self.port))
        self.connection.sendall(b"%8d" % index)
        return int(self.connection.recv(8))


if __name__ == "__main__":
    server = socket.create_server(("127.0.0.1", 0), backlog=64)
    multiprocessing.Process(target=serve, args=(server,), daemon=True).start()
    loader = DataLoader(Features(server.getsockname()[1]), batch_size=vary(16, 12), num_workers=2)
    loaderwatch.attach(loader)
    train(loader, step_s=0.02)
