"""S33: a stream that fills its shuffle buffer at the beginning of every epoch."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import train, vary

BATCH, OPEN_S = vary(8, 4, 12), vary(1.5, 2.2)


class Shards(IterableDataset[Tensor]):
    """Opens its shards for a while, then streams."""

    def __iter__(self) -> Iterator[Tensor]:
        time.sleep(OPEN_S)
        for _ in range(15 * BATCH):
            yield torch.zeros(16)


loader = DataLoader(Shards(), batch_size=BATCH, num_workers=2, persistent_workers=True)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.04, 0.05))
