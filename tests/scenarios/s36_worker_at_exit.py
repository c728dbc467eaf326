"""S36: Python waits at exit for a worker that handles SIGTERM and never returns from a read."""

import signal
import socket
import time

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, built_in, vary

batch_size, batches = vary(8, 5), vary(60, 80)
stuck_at = batch_size * (batches + 2) + 1
service = socket.create_server(("127.0.0.1", 0))
built_in(worker=batches % 2, samples=[stuck_at])


def read(index: int) -> None:
    """One sample that was read ahead and that nobody waits for."""
    if index == stuck_at:
        with socket.create_connection(service.getsockname()) as connection:
            connection.sendall(b"get\n")
            connection.recv(1)


def end_gracefully(worker: int) -> None:
    """Only notes the signal: the read is not interrupted by it."""
    signal.signal(signal.SIGTERM, lambda *_: print(f"worker {worker} ends soon"))


loader = loaderwatch.attach(
    DataLoader(SlowDataset(10_000, read), batch_size=batch_size, num_workers=2, worker_init_fn=end_gracefully)
)
for number, _batch in enumerate(loader):
    time.sleep(0.03)
    if number == batches:
        break
