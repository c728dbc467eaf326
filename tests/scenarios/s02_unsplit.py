"""S02 over a stream that is not split: more workers would repeat every row, so splitting comes first."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import train, vary


class Lines(IterableDataset[Tensor]):
    """Lines of a file, tokenized one after the other."""

    def __iter__(self) -> Iterator[Tensor]:
        for line in range(1_000_000):
            time.sleep(0.012)
            yield torch.full((16,), float(line))


loader = loaderwatch.attach(DataLoader(Lines(), batch_size=vary(8, 6), num_workers=1))
train(loader, step_s=0.03)
