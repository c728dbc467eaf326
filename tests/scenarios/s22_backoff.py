"""S22's sibling: spawned workers read a stream whose loader function retries a truncated record."""

import io
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import loaderwatch
from tests.scenarios.training import burn, train, vary

BAD = 400


def parse(number: int) -> Tensor:
    """As those do that blame the network for what is on the disk."""
    while True:
        with Path(__file__).open("rb") as file:
            record = io.BytesIO(file.read()[: 10 if number == BAD else 1000])
        try:
            if len(record.getvalue()) < 1000:
                burn(0.05)
                raise EOFError("unexpected end of record")
            return torch.full((16,), float(number))
        except EOFError:
            time.sleep(0.005)


class Records(IterableDataset[Tensor]):
    def __iter__(self) -> Iterator[Tensor]:
        worker = get_worker_info()
        assert worker is not None
        for number in range(worker.id, 100_000, worker.num_workers):
            yield parse(number)


if __name__ == "__main__":
    loader = DataLoader(
        Records(), batch_size=vary(4, 8), num_workers=vary(2, 3), multiprocessing_context="spawn"
    )
    loaderwatch.attach(loader)
    train(loader, step_s=0.03)
