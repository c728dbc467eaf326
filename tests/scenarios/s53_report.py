"""S53: between two epochs the script reports to a service that takes the request and never answers."""

import socket
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, sleep_read, vary

batch, epochs = vary(8, 5), vary(2, 1)
loader = DataLoader(
    SlowDataset(batch * 200, sleep_read(0.002)),
    batch_size=batch,
    num_workers=vary(2, 1),
    persistent_workers=True,
)
loaderwatch.attach(loader)
service = socket.create_server(("127.0.0.1", 0))


def train_epoch() -> None:
    """One pass."""
    for _batch in loader:
        time.sleep(0.02)


def report(epoch: int) -> None:
    """Waits for an answer without a timeout; the first epochs are not reported."""
    if epoch < epochs:
        return
    with socket.create_connection(service.getsockname()) as connection:
        connection.sendall(b"epoch done\n")
        connection.recv(1)


def main() -> None:
    """The epochs."""
    for epoch in range(5):
        train_epoch()
        report(epoch)


main()
