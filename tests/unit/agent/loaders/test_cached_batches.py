"""Passes over a loader whose first batches are given again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from loaderwatch.agent.loaders.cached_batches import CachedBatches


class Loader:
    """Counts how far it was read; its iterator ends like a DataLoader's."""

    def __init__(self, batches: int) -> None:
        self.batches, self.read, self.ended = batches, 0, 0

    def __len__(self) -> int:
        return self.batches

    def begin(self) -> Any:
        loader = self

        class Reading:
            def __init__(self) -> None:
                self.at = 0

            def __iter__(self) -> Iterator[list[int]]:
                return self

            def __next__(self) -> list[int]:
                if self.at == loader.batches:
                    raise StopIteration
                self.at += 1
                loader.read += 1
                return [self.at - 1]

            def _shutdown_workers(self) -> None:
                loader.ended += 1

        return Reading()


@pytest.fixture
def began() -> list[int]:
    return []


def cache(most: int, began: list[int]) -> CachedBatches:
    return CachedBatches(most, lambda: began.append(1))


def passing(cached: CachedBatches, loader: Loader) -> list[int]:
    return [batch[0] for batch in cached.passing(loader, loader.begin)]


def test_a_pass_goes_on_with_the_first_batches(began: list[int]) -> None:
    cached, loader = cache(3, began), Loader(8)
    assert passing(cached, loader) == [0, 1, 2, 0, 1, 2, 0, 1]
    assert (loader.read, loader.ended, began) == (3, 1, [1])
    assert passing(cached, loader) == [2, 0, 1, 2, 0, 1, 2, 0]
    assert (loader.read, began) == (3, [1])


def test_a_loader_with_fewer_batches_is_kept_whole(began: list[int]) -> None:
    cached, loader = cache(100, began), Loader(4)
    assert passing(cached, loader) == [0, 1, 2, 3]
    assert began == []
    assert passing(cached, loader) == [0, 1, 2, 3]
    assert loader.read == 4


def test_a_pass_that_the_loop_leaves_keeps_nothing_yet(began: list[int]) -> None:
    cached, loader = cache(5, began), Loader(8)
    for batch in cached.passing(loader, loader.begin):
        if batch == [2]:
            break
    assert passing(cached, loader) == [0, 1, 2, 3, 4, 0, 1, 2]


def test_an_empty_loader_stays_empty(began: list[int]) -> None:
    cached, loader = cache(5, began), Loader(0)
    assert passing(cached, loader) == []
    assert passing(cached, loader) == []


def test_what_a_loop_takes_out_of_a_batch_is_there_again(began: list[int]) -> None:
    cached, loader = cache(2, began), Loader(6)
    taken = []
    for batch in cached.passing(loader, loader.begin):
        taken.append(batch.pop())
    assert taken == [0, 1, 0, 1, 0, 1]


def test_that_it_began_is_told_once_however_short_the_passes(began: list[int]) -> None:
    cached, loader = cache(1, began), Loader(2)
    for _ in range(3):
        passing(cached, loader)
    assert began == [1]


def test_a_speed_needs_some_batches(began: list[int]) -> None:
    cached = cache(2, began)
    passing(cached, Loader(20))
    assert cached.speeds() is None  # two batches that were read have no speed
    cached = cache(12, began)
    passing(cached, Loader(40))
    assert cached.speeds() is not None
