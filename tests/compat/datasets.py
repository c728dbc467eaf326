"""Datasets that the cases share. Every worker can import this module, whatever way it was started."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset[torch.Tensor]):
    """Numbers, one of which may fail."""

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
