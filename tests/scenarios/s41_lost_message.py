"""S41: a batch that cannot be pickled is lost in the worker's feeder thread; all workers are idle, nothing comes."""

import os
from typing import Any

from torch.utils.data import DataLoader

import loaderwatch
from tests.scenarios.training import SlowDataset, train


class Fragile:
    """Fails when it is handed over, and not before."""

    def __reduce__(self) -> Any:
        raise ValueError("cannot be pickled")


class Sometimes(SlowDataset):
    """Sample 333 is fragile."""

    def __getitem__(self, index: int) -> Any:
        return Fragile() if index == 333 else index


def as_list(samples: list[Any]) -> list[Any]:
    """No tensor is made of these."""
    return samples


os.close(2)  # the feeder thread prints a traceback; in the jobs this stands for nobody saw it
os.open(os.devnull, os.O_WRONLY)
loader = DataLoader(Sometimes(100_000), batch_size=8, num_workers=2, collate_fn=as_list)
loaderwatch.attach(loader)
train(loader, step_s=0.05, seconds=60)
