"""S23: an iterable dataset whose shards are unequal; most workers have nothing left after a moment."""

import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import loaderwatch
from tests.scenarios.training import built_in, train, vary

batch, full = vary(8, 4), vary(3, 1, 0)
built_in(worker=full)


class Shards(IterableDataset[Tensor]):
    """One shard holds nearly everything, and one worker reads it."""

    def __iter__(self) -> Iterator[Tensor]:
        info = get_worker_info()
        assert info is not None
        for number in range(100_000 if info.id == full else batch * 12):
            time.sleep(0.16 / batch)
            yield torch.full((16,), float(number))


loader = DataLoader(Shards(), batch_size=batch, num_workers=4)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.03, 0.04))
