"""S33: a stream refills its whole shuffle buffer whenever it is empty, so the loop waits two seconds."""

import random
import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

import loaderwatch
from tests.scenarios.training import train, vary

SIZE = vary(384, 256)


class Shuffled(IterableDataset[Tensor]):
    """Reads as many records as the buffer holds, then hands them out."""

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            buffer = []
            for number in range(SIZE):
                time.sleep(0.004)
                buffer.append(torch.full((16,), float(number)))
            random.shuffle(buffer)
            yield from buffer


loader = loaderwatch.attach(DataLoader(Shuffled(), batch_size=8, num_workers=1))
train(loader, step_s=0.04)
