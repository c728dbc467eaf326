"""Whether workers take turns: what all get done against what each gets done, by chance and by pattern."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from loaderwatch.detect.input_bound.lock_causes import turns_of
from loaderwatch.detect.measures.fetches import Fetches
from tests.unit.detect.build import T0, S

Fetch = tuple[int, float, float]
"""Worker, begin and seconds."""


def fetches(rows: Iterator[Fetch] | list[Fetch]) -> Fetches:
    """They come in the order in which they ended."""
    ordered = sorted(rows, key=lambda row: row[1] + row[2])
    worker, began, took = (np.array(column) for column in zip(*ordered, strict=True))
    nothing = np.zeros(len(ordered))
    return Fetches(
        worker=worker.astype(np.int64),
        ordinal=np.arange(len(ordered)),
        began_ns=T0 + (began * S).astype(np.int64),
        fetch_s=took.astype(np.float64),
        collate_s=nothing,
        cpu_s=nothing,
        samples=np.full(len(ordered), 4),
        slow_index=np.zeros(len(ordered), dtype=np.int64),
        slow_s=nothing,
        bytes=nothing,
    )


def in_turns(workers: int, seconds: float = 30.0, hold_s: float = 0.02, samples: int = 4) -> Iterator[Fetch]:
    """The next worker that tries gets the lock, for one sample."""
    random = np.random.default_rng(workers)
    began, left, now = [0.0] * workers, [samples] * workers, 0.0
    while now < seconds:
        worker = int(random.integers(workers))
        now += hold_s * random.uniform(0.9, 1.1)
        left[worker] -= 1
        if not left[worker]:
            yield worker, began[worker], now - began[worker]
            began[worker], left[worker] = now, samples


def apart(
    workers: int, took_s: Callable[[int, int], float], seconds: float = 30.0, rest_s: float = 0.0
) -> Iterator[Fetch]:
    """Each worker for itself; ``took_s`` is of a batch, by its number and the worker's."""
    for worker in range(workers):
        now, batch = 0.01 * worker, worker
        while now < seconds:
            took = took_s(batch, worker)
            yield worker, now, took
            now, batch = now + took + rest_s, batch + workers


def by_chance(spread: float) -> Callable[[int, int], float]:
    random = np.random.default_rng(int(10 * spread))
    return lambda batch, worker: 0.2 * random.lognormal(0.0, spread)


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_one_at_a_time(workers: int) -> None:
    turns = turns_of(fetches(in_turns(workers)))
    assert turns.taken
    assert turns.together_ratio < turns.own_ratio / 2


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
@pytest.mark.parametrize("spread", [0.1, 0.3, 0.8, 1.5])
def test_all_at_once(workers: int, spread: float) -> None:
    """Storage, a network, a service: they answer each for itself, some late."""
    assert not turns_of(fetches(apart(workers, by_chance(spread), 60.0))).taken


def test_what_slows_down_all_at_once() -> None:
    """A busy machine."""
    random = np.random.default_rng(3)
    busy = np.repeat(random.lognormal(0.0, 0.5, 400), 10)
    assert not turns_of(fetches(apart(4, lambda batch, worker: 0.2 * float(busy[batch]), 60.0))).taken


@pytest.mark.parametrize("workers", [2, 3, 4, 6])
@pytest.mark.parametrize("heavy", [2, 3, 4, 7, 11])
def test_a_pattern_in_the_data(workers: int, heavy: int) -> None:
    """Every so many batches a heavy one: when one worker has it, the others have none."""
    took = fetches(apart(workers, lambda batch, worker: 0.6 if batch % heavy == 0 else 0.1, 60.0))
    assert not turns_of(took).taken


def test_shards_that_alternate() -> None:
    """One worker reads its heavy shard while the other reads its light one, and then the other way round."""

    def took_s(batch: int, worker: int) -> float:
        """Two heavy batches take as long as twelve light ones."""
        number = batch // 2 % 14
        return 0.6 if (number < 2 if worker else number >= 12) else 0.1

    took = fetches(apart(2, took_s, 60.0))
    turns = turns_of(took)
    assert turns.together_ratio < turns.own_ratio / 2  # it looks so
    assert not turns.taken  # and also with their pasts laid apart


def test_workers_that_rest() -> None:
    """They keep up with the loop, which takes what they get done as steadily as a lock would give it."""
    random = np.random.default_rng(5)
    took = [(number % 2, 0.1 * number, float(random.uniform(0.01, 0.09))) for number in range(400)]
    assert not turns_of(fetches(took)).taken


def test_too_little_is_known() -> None:
    steady = turns_of(fetches(apart(4, lambda batch, worker: 0.2)))
    assert not steady.taken  # nothing varies
    assert not turns_of(fetches(in_turns(4, seconds=5.0))).taken
    alone = turns_of(fetches(in_turns(1)))
    assert math.isnan(alone.own_ratio)
    assert not alone.taken
