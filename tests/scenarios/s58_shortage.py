"""S58 with data wait: each sample reads a growing journal until the workers no longer keep up."""

import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary


class Journal(Dataset[Tensor]):
    """Looks through what it has handed out before each sample."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.002 + 0.00001 * len(self.seen) * vary(1.0, 1.3))
        self.seen.append(index)
        return torch.full((16,), float(index))


loader = loaderwatch.attach(DataLoader(Journal(), batch_size=8, num_workers=2))
train(loader, step_s=0.04, seconds=100.0)
