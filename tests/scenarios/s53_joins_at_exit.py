"""S53: the script is over; Python waits for a thread that uploads to a service that never answers."""

import socket
import threading
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

batch_size = vary(8, 5)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)
service = socket.create_server(("127.0.0.1", 0))


def upload_metrics() -> None:
    """Without a timeout, and not as a daemon."""
    with socket.create_connection(service.getsockname()) as connection:
        connection.sendall(b"loss 0.1\n")
        connection.recv(1)


for _ in range(2):
    for _batch in loader:
        time.sleep(0.03)
threading.Thread(target=upload_metrics).start()
