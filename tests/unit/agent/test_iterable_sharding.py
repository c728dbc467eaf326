"""Whether an iterable dataset deals its rows out among workers, by its code alone."""

from __future__ import annotations

import queue
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data import datapipes as pipes

from loaderwatch.agent.iterable_sharding import splits_by_worker
from loaderwatch.agent.loader_description import describe_loader


class Stream(IterableDataset[Any]):
    """Rows by whatever it was given."""

    def __init__(self, rows: Any = None) -> None:
        self.rows = rows


class Lines(Stream):
    """All lines of a file."""

    def __iter__(self) -> Iterator[str]:
        with Path("rows.txt").open() as file:
            yield from file


class Shuffled(Stream):
    """All rows, in another order each time."""

    def __iter__(self) -> Iterator[int]:
        rows = list(range(100))
        random.shuffle(rows)
        yield from rows


class Split(Stream):
    """As PyTorch's documentation says."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        yield from range(info.id, 100, info.num_workers)


def mine(rows: list[int]) -> list[int]:
    """What belongs to this worker."""
    info = get_worker_info()
    return rows if info is None else rows[info.id :: info.num_workers]


class Helped(Stream):
    """A function of the module splits."""

    def __iter__(self) -> Iterator[int]:
        yield from self._all()

    def _all(self) -> list[int]:
        return mine(list(range(100)))


class Numbered(Stream):
    """Somebody sets its worker from outside."""

    worker_id, worker_count = 0, 1

    def __iter__(self) -> Iterator[int]:
        yield from range(self.worker_id, 100, self.worker_count)


class Given(Stream):
    """Iterates what it was given."""

    def __iter__(self) -> Iterator[Any]:
        yield from self.rows()


class Around(Stream):
    """Maps another stream."""

    def __iter__(self) -> Iterator[Any]:
        for row in self.rows:
            yield row + 1


class Drawn(Stream):
    """Makes its rows up."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.randn(4)


class Chances(Stream):
    """Draws them from the standard library."""

    def __iter__(self) -> Iterator[float]:
        while True:
            yield random.random()


class Queued(Stream):
    """Each message comes once, to the first taker."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.rows.get()


class Child(Lines):
    """Does not say itself how it is iterated."""


def all_rows() -> Iterator[int]:
    yield from range(100)


def split_rows() -> Iterator[int]:
    yield from mine(list(range(100)))


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (Lines(), False),
        (Child(), False),
        (Shuffled(), False),
        (Given(all_rows), False),
        (Given(lambda: range(3)), False),
        (Around(Lines()), False),
        (Around(np.arange(3)), False),
        (Split(), True),
        (Helped(), True),
        (Numbered(), True),
        (Given(split_rows), True),
        (Given(lambda: split_rows()), True),
        (Around(Split()), True),
        (Around([Split(), Lines()]), True),
        (Drawn(), None),
        (Chances(), None),
        (Queued(queue.Queue()), None),
        (pipes.iter.IterableWrapper([1, 2]), None),
        (Around(pipes.iter.IterableWrapper([1, 2])), None),
        (torch.utils.data.ChainDataset([Lines()]), None),
        (Around(list(range(1000))), False),
    ],
)
def test_what_its_code_says(stream: Any, told: bool | None) -> None:
    assert splits_by_worker(stream) is told


def test_a_stream_of_a_library_inside_may_split_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As webdataset, litdata and mosaicml-streaming do: their classes are PyTorch's streams."""
    folder = tmp_path / "site-packages" / "shardlib"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(
        "from torch.utils.data import IterableDataset\nclass Shards(IterableDataset):\n"
        "    def __iter__(self): return iter(())\n"
    )
    monkeypatch.syspath_prepend(str(folder.parent))
    import shardlib  # type: ignore[import-not-found]

    class Rows(Stream):
        def __iter__(self) -> Iterator[int]:
            yield from shardlib.Shards()

    class Late(Stream):
        def __iter__(self) -> Iterator[int]:
            import shardlib as lib

            yield from lib.Shards()

    try:
        assert [
            splits_by_worker(one) for one in (shardlib.Shards(), Rows(), Late(), Around(shardlib.Shards()))
        ] == [None] * 4
    finally:
        sys.modules.pop("shardlib", None)


def into_dataset(worker_id: int) -> None:
    """As in PyTorch's documentation."""
    info = torch.utils.data.get_worker_info()
    assert info is not None
    info.dataset.start = worker_id  # type: ignore[attr-defined]


def seed(worker_id: int) -> None:
    """As in PyTorch's notes on reproducibility."""
    np.random.seed(worker_id)


@pytest.mark.parametrize(("init", "told"), [(into_dataset, True), (seed, False), (None, False)])
def test_a_worker_init_fn_may_split_it(init: Callable[[int], None] | None, told: bool) -> None:
    loader: DataLoader[Any] = DataLoader(Lines(), num_workers=2, worker_init_fn=init)
    assert describe_loader(loader, 0, "loader", "train", "DataLoader").splits_by_worker is told


def test_nothing_of_it_is_run() -> None:
    class Shy(IterableDataset[int]):
        def __getattribute__(self, name: str) -> Any:
            if name not in ("__class__", "__dict__"):
                raise AssertionError(name)
            return super().__getattribute__(name)

        def __iter__(self) -> Iterator[int]:
            raise AssertionError

    assert splits_by_worker(Shy()) is False


def test_a_very_large_one_is_not_told() -> None:
    kinds = [type(f"Kind{number}", (), {}) for number in range(300)]
    assert splits_by_worker(Around({"kinds": kinds})) is False  # a dictionary is not looked into
    nested: Any = [ModuleType("end")]
    for _ in range(300):
        nested = [nested]
    assert splits_by_worker(Around(nested)) is None
