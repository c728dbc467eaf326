"""S58: the dataset searches a list that grows with every sample, so fetches get slower; no wait yet."""

import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary

STEP_S = 0.05
WORKERS = 2


class Growing(Dataset[Tensor]):
    """Each sample costs a little more than the one before."""

    def __init__(self) -> None:
        self.seen = 0

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        self.seen += 1
        # Two workers read ten batches of eight a second: from 50 ms a batch to the loop's 100 ms in 100 s.
        time.sleep(0.0062 * (1 + self.seen / vary(8000, 9000)))
        return torch.full((16,), float(index))


loader = loaderwatch.attach(DataLoader(Growing(), batch_size=8, num_workers=WORKERS))
train(loader, step_s=STEP_S, seconds=110.0)
