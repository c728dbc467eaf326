"""S36: an epoch cannot end: the stream says good-bye to its service, which does not answer any more."""

import socket
import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import vary

service = socket.create_server(("127.0.0.1", 0))
batch, last = vary(8, 5), vary(1, 2)


class Stream(IterableDataset[Tensor]):
    """Reads from a service, and tells it when it has read enough."""

    epoch = 0

    def __iter__(self) -> Iterator[Tensor]:
        try:
            for index in range(batch * 100):
                yield torch.full((16,), float(index))
        finally:
            self.epoch += 1
            if self.epoch > last:
                self.close_session()

    def close_session(self) -> None:
        """Without a timeout."""
        with socket.create_connection(service.getsockname()) as connection:
            connection.sendall(b"bye\n")
            connection.recv(1)


loader = loaderwatch.attach(DataLoader(Stream(), batch_size=batch))
for _ in range(5):
    for number, _batch in enumerate(loader):
        time.sleep(0.03)
        if number == 40:
            break
