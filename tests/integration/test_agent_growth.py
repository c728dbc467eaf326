"""A watched loop keeps nothing: hundreds of thousands of batches leave no more objects than ten thousand."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import loaderwatch
from tests.conftest import RingFolder

pytestmark = pytest.mark.usefixtures("no_streamer")
MAX_BLOCKS = 400  # of the allocator, in all: caches of the interpreter come and go


class Answers:
    """A dataset, and an iterable over batches, that answers at once."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> int:
        return index

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.length))


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def grown(loop: Callable[[], None], times: int) -> int:
    """Blocks more after ``times`` loops than after four, in which Python 3.13 fills its caches."""
    for _ in range(4):
        loop()
    before = blocks()
    for _ in range(times):
        loop()
    return blocks() - before


def test_300_000_batches_keep_nothing(rings: RingFolder) -> None:
    watched = loaderwatch.attach(Answers(10_000))

    def loop() -> None:
        for _ in watched:
            pass

    assert grown(loop, 28) < MAX_BLOCKS
    span = rings.main().span
    assert span is not None
    assert span.batches == 320_000


def test_fetches_and_phases_of_4_000_batches_keep_nothing(rings: RingFolder) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader: DataLoader[Any] = DataLoader(Answers(500), batch_size=1)  # type: ignore[arg-type]
    loaderwatch.attach(loader, model=model, optimizer=optimizer)
    step = torch.ones(1, 1)

    def loop() -> None:
        for number, _ in enumerate(loader):
            if not number % 20:
                optimizer.zero_grad()
                model(step).sum().backward()
                optimizer.step()

    assert grown(loop, 4) < MAX_BLOCKS
    span = rings.main().span
    assert span is not None
    assert (span.batches, span.steps) == (4_000, 200)
