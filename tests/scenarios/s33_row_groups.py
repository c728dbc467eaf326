"""S33's sibling: a map-style dataset reads and keeps the row group of a sample; samples come in order."""

import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary

GROUP = vary(320, 200)


class Rows(Dataset[Tensor]):
    """A file of row groups, of which a worker holds one."""

    def __init__(self) -> None:
        self.group, self.rows = -1, torch.empty(0)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        if index // GROUP != self.group:
            time.sleep(1.5)
            self.group, self.rows = index // GROUP, torch.arange(GROUP * 16.0).reshape(GROUP, 16)
        return self.rows[index % GROUP]


loader = loaderwatch.attach(DataLoader(Rows(), batch_size=8, num_workers=2))
train(loader, step_s=0.04)
