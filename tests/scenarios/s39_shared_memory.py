"""S39: large batches, read ahead by many workers, on a /dev/shm that is too small for them.

The loop takes each batch at once, so all is well until a step takes long. With ``--full`` one does.
"""

import sys
import time

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import loaderwatch
from tests.scenarios.training import train, vary


class Pictures(Dataset[Tensor]):
    """A megabyte each."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(0.03)
        return torch.zeros(250_000)


if __name__ == "__main__":
    full = "--full" in sys.argv
    loader = DataLoader(Pictures(), batch_size=4, num_workers=2, prefetch_factor=vary(8, 6))
    loaderwatch.attach(loader)
    train(
        loader, step_s=0.056, seconds=15, each_step=lambda step: time.sleep(5 if full and step == 30 else 0)
    )
