"""S53: the script is over; its thread pool waits for an upload to a service that never answers."""

import socket
import time
from concurrent.futures import ThreadPoolExecutor

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, vary

batch_size = vary(8, 5)
loader = loaderwatch.attach(
    DataLoader(SlowDataset(batch_size * vary(60, 80)), batch_size=batch_size, num_workers=1)
)
service = socket.create_server(("127.0.0.1", 0))


def upload_checkpoint(epoch: int) -> None:
    """Without a timeout."""
    with socket.create_connection(service.getsockname()) as connection:
        connection.sendall(b"weights of epoch %d\n" % epoch)
        connection.recv(1)


uploads = ThreadPoolExecutor(1)
for number in range(2):
    for _batch in loader:
        time.sleep(0.03)
    uploads.submit(upload_checkpoint, number)
