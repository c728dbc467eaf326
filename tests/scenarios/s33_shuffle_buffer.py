"""S33: a stream that fills its shuffle buffer at the beginning of every epoch."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import train


class Shards(IterableDataset[Tensor]):
    """Opens its shards for 1.5 s, then streams."""

    def __iter__(self) -> Iterator[Tensor]:
        time.sleep(1.5)
        for _ in range(120):
            yield torch.zeros(16)


loader = DataLoader(Shards(), batch_size=8, num_workers=2, persistent_workers=True)
loaderwatch.attach(loader)
train(loader, step_s=0.04, seconds=30)
