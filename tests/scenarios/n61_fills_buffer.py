"""N61: the workers' memory grows until a shuffle buffer is full (``--cache``: until a bounded cache is)."""

import random
import sys
import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

import loaderwatch
from tests.scenarios.training import train, vary

SAMPLE = bytes(200_000)
MOST = vary(1200, 1000)
"""Samples that a worker keeps: 240 MB, for which it takes 20 s."""


class Shuffled(IterableDataset[Tensor]):
    """Reads two samples for each one that it gives away until its buffer is full, as webdataset does."""

    def __iter__(self) -> Iterator[Tensor]:
        buffer = [bytearray(SAMPLE) for _ in range(50)]
        while True:
            for _ in range(2 if len(buffer) < MOST else 1):
                buffer.append(bytearray(SAMPLE))
            drawn = buffer.pop(random.randrange(len(buffer)))
            time.sleep(0.002)
            yield torch.full((16,), float(len(drawn)))


class Cached(Dataset[Tensor]):
    """Keeps the first samples that it reads."""

    kept: list[bytearray]

    def __init__(self) -> None:
        self.kept = []

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.002)
        if len(self.kept) < MOST:
            self.kept.append(bytearray(SAMPLE))
        return torch.full((16,), float(index))


if __name__ == "__main__":
    dataset = Cached() if "--cache" in sys.argv else Shuffled()
    loader = DataLoader(dataset, batch_size=vary(6, 4), num_workers=2)
    loaderwatch.attach(loader)
    train(loader, step_s=0.05, seconds=40)
