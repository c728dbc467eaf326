"""S41: a batch that cannot be pickled is lost in the worker's feeder thread; all workers are then idle."""

import os
from typing import Any

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train, vary


class Fragile:
    """Fails when it is handed over, and not before."""

    def __reduce__(self) -> Any:
        raise ValueError("cannot be pickled")


INDEX = vary(333, 205, 517)


class Sometimes(SlowDataset):
    """One sample is fragile."""

    def __getitem__(self, index: int) -> Any:
        return Fragile() if index == INDEX else index


def as_list(samples: list[Any]) -> list[Any]:
    """No tensor is made of these."""
    return samples


os.close(2)  # the feeder thread prints a traceback; in the jobs this stands for nobody saw it
os.open(os.devnull, os.O_WRONLY)
loader = DataLoader(Sometimes(100_000), batch_size=vary(8, 4, 12), num_workers=vary(2, 3), collate_fn=as_list)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.05, 0.07))
