"""S19: StatefulDataLoader sends the dataset's state, with its shuffle buffer, along with every batch."""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset
from torchdata.stateful_dataloader import StatefulDataLoader

import loaderwatch
from tests.scenarios.training import train, vary

warnings.filterwarnings("ignore", "'set_vital' is deprecated")  # torchdata 0.11 on torch 2.13


class Shuffled(IterableDataset[Tensor]):
    """A stream behind a shuffle buffer."""

    def __init__(self, size: int) -> None:
        self.buffer = [(number, str(number)) for number in range(size)]
        self.at = size

    def __iter__(self) -> Iterator[Tensor]:
        while True:
            place = self.at * 7919 % len(self.buffer)
            number, _ = self.buffer[place]
            self.buffer[place] = (self.at, str(self.at))
            self.at += 1
            yield torch.full((16,), float(number))

    def state_dict(self) -> dict[str, Any]:
        return {"buffer": list(self.buffer), "at": self.at}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.buffer, self.at = state["buffer"], state["at"]


loader = StatefulDataLoader(
    Shuffled(vary(150_000, 200_000)),
    batch_size=vary(8, 4),
    num_workers=2,
    prefetch_factor=vary(4, 3),
)
loaderwatch.attach(loader)
train(loader, step_s=vary(0.15, 0.1))
