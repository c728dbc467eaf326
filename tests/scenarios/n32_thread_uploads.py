"""N32: the script is over; a thread of it still uploads, slowly and steadily, with hardly any CPU."""

import socket
import threading
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

batch = vary(8, 5)
loader = DataLoader(SlowDataset(batch * 40), batch_size=batch, num_workers=vary(2, 1))
loaderwatch.attach(loader)
service = socket.create_server(("127.0.0.1", 0))


def receive() -> None:
    """A service behind a slow network."""
    connection, _ = service.accept()
    while connection.recv(4096):
        time.sleep(0.1)


def upload(seconds: float = 75.0) -> None:
    """Weights, in pieces, as the network takes them."""
    until = time.monotonic() + seconds
    with socket.create_connection(service.getsockname()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        while time.monotonic() < until:
            connection.sendall(bytes(4096))


for _epoch in range(2):
    for _batch in loader:
        time.sleep(0.05)
threading.Thread(target=receive, daemon=True).start()
threading.Thread(target=upload).start()
