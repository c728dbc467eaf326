"""Datasets that the cases share. Every worker can import this module, whatever way it was started."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset[torch.Tensor]):
    """Square numbers; reading index ``bad`` fails."""

    def __init__(self, length: int = 24, bad: int = -1) -> None:
        self.length = length
        self.bad = bad

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.bad:
            raise ValueError(f"sample {index} is broken")
        return torch.tensor([index * index])


class Stream(IterableDataset[torch.Tensor]):
    """A stream, split over the workers."""

    def __init__(self, length: int = 23) -> None:
        self.length = length

    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for number in range(worker, self.length, workers):
            yield torch.tensor([number])


class SizedStream(Stream):
    """A stream that says how long it is, and may be wrong."""

    def __init__(self, length: int = 23, said: int = 23) -> None:
        super().__init__(length)
        self.said = said

    def __len__(self) -> int:
        return self.said


class Batched(Squares):
    """Reads a whole batch at once."""

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        assert type(indices) is list
        return [self[index] for index in indices]


class Slow(Squares):
    """One sample takes its time."""

    def __init__(self, length: int = 24, slow: int = -1, seconds: float = 0.2) -> None:
        super().__init__(length)
        self.slow = slow
        self.seconds = seconds

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.slow:
            time.sleep(self.seconds)
        return super().__getitem__(index)


class Telling(Squares):
    """Tells when one of its samples is read."""

    def __init__(self, length: int, index: int, read: Event) -> None:
        super().__init__(length)
        self.index = index
        self.read = read

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.index:
            self.read.set()
        return super().__getitem__(index)


def noisy_init(worker: int) -> None:
    """Draws from all generators of its worker, and leaves a mark in the copy of the dataset."""
    info: Any = get_worker_info()
    info.dataset.mark = [worker, *about_generators()]


def about_generators() -> list[float]:
    """What the generators of this process give next."""
    return [torch.rand(1).item(), random.random(), float(np.random.rand())]


def about_worker(rows: list[torch.Tensor]) -> list[object]:
    """A collate function: the batch, who made it, and what its generators give."""
    info = get_worker_info()
    worker = (info.id, info.num_workers, info.seed, getattr(info.dataset, "mark", None)) if info else None
    return [torch.stack(rows), worker, about_generators()]
