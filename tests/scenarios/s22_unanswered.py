"""S22: one of three servers never answers for some records; each request times out, then another is asked."""

import multiprocessing
import socket
import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary

LIMIT_S = vary(0.8, 1.1)
SILENT_AFTER_S = 10.0
SILENT_OF = vary(40, 60)  # of so many records, one


def serve(listener: socket.socket, leaves_out: bool) -> None:
    """Answer each request; of one that is left out say nothing, but keep its connection."""
    began, kept = time.monotonic(), []
    while True:
        connection, _ = listener.accept()
        record = int(connection.recv(16))
        if leaves_out and record % SILENT_OF == 0 and time.monotonic() - began > SILENT_AFTER_S:
            kept.append(connection)
            continue
        connection.sendall(b"%d" % record)
        connection.close()


class Records(Dataset[Tensor]):
    """Asks the servers in turn."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports

    def __len__(self) -> int:
        return 6000

    def __getitem__(self, index: int) -> Tensor:
        return torch.full((16,), float(self.record(index)))

    def record(self, index: int) -> int:
        """Return a record from the first server that answers in time."""
        for port in self.ports:
            try:
                with socket.create_connection(("127.0.0.1", port), LIMIT_S) as connection:
                    connection.sendall(b"%d" % index)
                    return int(connection.recv(16))
            except TimeoutError:
                continue
        raise RuntimeError(f"record {index} is not there")


def main() -> None:
    """Train."""
    listeners = [socket.create_server(("127.0.0.1", 0), backlog=64) for _ in range(2)]
    for number, listener in enumerate(listeners):
        multiprocessing.Process(target=serve, args=(listener, number == 0), daemon=True).start()
    loader = DataLoader(
        Records([listener.getsockname()[1] for listener in listeners]),
        batch_size=vary(12, 16),
        shuffle=True,
        num_workers=2,
    )
    loaderwatch.attach(loader)
    train(loader, step_s=0.02)


if __name__ == "__main__":
    main()
