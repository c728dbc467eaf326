"""Subclasses of DataLoader that keep their own iterator: timm's, YOLOv5's, and others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import loaderwatch
from loaderwatch.agent.launcher import ondemand
from loaderwatch.core.records import UNKNOWN, IterKind, RecordKind
from tests.conftest import RingFolder

pytestmark = [
    pytest.mark.usefixtures("data_dir", "no_streamer"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
WAYS = ("attach", "everything", "run")


class Repeating:
    """Restarts its sampler forever."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.sampler


class Everlasting(DataLoader[Any]):
    """Its workers and their batches in flight outlive the epochs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        object.__setattr__(self, "batch_sampler", Repeating(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        repeating: Any = self.batch_sampler
        return len(repeating.sampler)

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)


class Switching(DataLoader[Any]):
    """The same in other words."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._DataLoader__initialized = False
        self.batch_sampler = Repeating(self.batch_sampler)
        self._DataLoader__initialized = True
        self.iterator = DataLoader.__iter__(self)

    def __len__(self) -> int:
        repeating: Any = self.batch_sampler
        return len(repeating.sampler)

    def __iter__(self) -> Any:
        for _ in range(len(self)):
            yield next(self.iterator)


class Ahead(DataLoader[Any]):
    """A thread reads, the loop takes what it has read."""

    def __iter__(self) -> Any:
        found: Queue[Any] = Queue()
        inside = super().__iter__()

        def read() -> None:
            for batch in inside:
                found.put(batch)
            found.put(None)

        thread = threading.Thread(target=read)
        thread.start()
        yield from iter(found.get, None)
        thread.join()


class Itself(DataLoader[Any]):
    """Is its own iterator."""

    def __iter__(self) -> Any:
        self.inside = super().__iter__()
        return self

    def __next__(self) -> Any:
        return next(self.inside)


class Handed(DataLoader[Any]):
    """Hands its iterator out in whatever way."""

    def __iter__(self) -> Any:
        return map(torch.neg, (batch for (batch,) in self._get_iterator()))


def numbers(kind: type[DataLoader[Any]], workers: int = 0) -> DataLoader[Any]:
    return kind(TensorDataset(torch.arange(12)), batch_size=2, num_workers=workers)


def watched(make: Callable[[], DataLoader[Any]], way: str) -> DataLoader[Any]:
    if way == "run":
        ondemand.install()
    elif way == "everything":
        loaderwatch.attach()
    return loaderwatch.attach(make()) if way == "attach" else make()


def epochs(rings: RingFolder) -> list[tuple[int, int, int]]:
    """Loader, number and batches of every epoch that ended."""
    return [(one["loader"], one["epoch"], one["batches"]) for one in rings.main().of(RecordKind.EPOCH_END)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [Everlasting, Switching])
def test_an_iterator_that_outlives_the_epochs(
    kind: type[DataLoader[Any]], workers: int, way: str, rings: RingFolder
) -> None:
    loader = watched(lambda: numbers(kind, workers), way)
    inside = loader.iterator  # type: ignore[attr-defined]
    assert type(inside).__name__.endswith("DataLoaderIter")
    for _ in range(3):
        assert [batch.tolist() for (batch,) in loader] == [[n, n + 1] for n in range(0, 12, 2)]
    assert epochs(rings) == [(0, number, 6) for number in range(3)]
    main = rings.main()
    steps = main.of(RecordKind.STEP)
    assert [step["batch"] for step in steps] == [*range(6)] * 3
    begins = main.of(RecordKind.EPOCH_BEGIN)
    assert [one["iter_kind"] for one in begins] == [IterKind.RESET if workers else IterKind.IN_PROCESS] * 3
    assert [one["gap_ns"] != UNKNOWN for one in begins] == [False, True, True]
    if workers:
        # of the first batch it was not yet known whose iterator is read inside
        assert all(step["awaited_worker"] == number % 2 for number, step in enumerate(steps) if number)
        assert all(step["ready"] >= 0 for step in steps[1:])
        # attached afterwards, its workers are running and tell nothing
        assert sorted(ring.worker for ring in rings.workers()) == ([] if way == "attach" else [0, 1])
    else:
        assert len(main.of(RecordKind.FETCH)) == 18


@pytest.mark.parametrize("way", WAYS)
def test_asked_for_its_batches_past_its_own_iter(way: str, rings: RingFolder) -> None:
    loader = watched(lambda: numbers(Everlasting), way)
    for number in range(0, 6, 2):
        assert next(loader.iterator)[0].tolist() == [number, number + 1]  # type: ignore[attr-defined]
    assert next(batch.tolist() for (batch,) in list(loader)) == [6, 7]
    assert len(rings.main().of(RecordKind.STEP)) == 8  # the third goes on for ever
    assert epochs(rings) == [(0, 1, 6)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", [Ahead, Itself, Handed])
def test_others(kind: type[DataLoader[Any]], workers: int, way: str, rings: RingFolder) -> None:
    """Each batch is counted once, whatever it goes through, also where a thread fetches it."""
    loader = watched(lambda: numbers(kind, workers), way)
    for _ in range(2):
        assert len(list(loader)) == 6
    assert epochs(rings) == [(0, 0, 6), (0, 1, 6)]
    steps = rings.main().of(RecordKind.STEP)
    assert [step["batch"] for step in steps] == [*range(6)] * 2
    assert not any(step["off_main_thread"] for step in steps)


@pytest.mark.parametrize("way", WAYS)
def test_what_a_parent_gives_is_the_parents(way: str, rings: RingFolder) -> None:
    loader: Any = watched(lambda: numbers(Everlasting), way)
    ours = DataLoader.__iter__(loader)
    assert type(ours).__name__ == "_SingleProcessDataLoaderIter"
    assert next(ours)[0].tolist() == [0, 1]
    assert next(Everlasting.__iter__(loader))[0].tolist() == [0, 1]
    assert next(iter(loader))[0].tolist() == [2, 3]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iterator_that_is_never_asked_is_no_epoch(workers: int, rings: RingFolder) -> None:
    loader = loaderwatch.attach(numbers(DataLoader, workers))
    kept = [iter(loader) for _ in range(2)]
    assert len(list(loader)) == 6
    del kept
    iter(loader)
    assert len(list(loader)) == 6
    assert epochs(rings) == [(0, 0, 6), (0, 1, 6)]
    assert len(rings.main().of(RecordKind.EPOCH_BEGIN)) == 2
