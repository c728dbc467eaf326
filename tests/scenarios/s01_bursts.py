"""S01: a generator without workers reads a row group at a time, so the loop waits long now and then."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor

import loaderwatch
from tests.scenarios.training import train, vary

group, read_s = vary(40, 30), vary(1.6, 1.2)


class RowGroups:
    """Batches from a file of row groups."""

    def __iter__(self) -> Iterator[Tensor]:
        for _group in range(100):
            time.sleep(read_s)
            for _batch in range(group):
                yield torch.zeros(8, 16)


train(loaderwatch.attach(RowGroups()), step_s=0.02)
