"""Stand-ins for a fetcher's dataset and ``collate_fn``, which enforce the limit on each sample.

Without a limit, neither the hot path nor the fetcher has them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from multiprocessing.util import Finalize
from typing import Any

from torch.utils import data as torch_data

from loaderwatch.agent.guard import ask, in_own_language, shield
from loaderwatch.agent.hot.samples import plain_index
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.agent.workers.deadline import Deadline
from loaderwatch.agent.workers.fetch import reads_at_once
from loaderwatch.agent.workers.sample_limit import LEFT_OUT, EmptyBatch, SampleGuard, SampleLimit
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import RingWriter


class LimitedDataset:
    """Stands in for a map-style dataset and enforces the limit on each of its samples."""

    __getitems__: Any = None  # a Subset's own would bypass the limit

    def __init__(self, dataset: Any, guard: SampleGuard) -> None:
        self._dataset = dataset
        self._guard = guard

    def __getitem__(self, index: Any) -> Any:
        guard = self._guard
        if not guard.watches:
            return self._dataset[index]
        try:
            guard.begin(plain_index(index))
            sample = self._dataset[index]
            guard.end()
        except BaseException as error:
            if not guard.took_too_long(error):
                raise
            return guard.give_up(error, "sample", _shown(index), plain_index(index))
        return sample

    def __len__(self) -> int:
        return len(self._dataset)

    def __getattr__(self, name: str) -> Any:
        if name in ("_dataset", "_guard"):
            raise AttributeError(name)
        return getattr(self._dataset, name)


class LimitedBatches(LimitedDataset):
    """Stands in for a dataset that reads all samples of a batch at once; a batch counts as one sample."""

    def __getitems__(self, indices: Any) -> Any:
        guard = self._guard
        if not guard.watches:
            return self._dataset.__getitems__(indices)
        try:
            guard.begin(UNKNOWN)
            samples = self._dataset.__getitems__(indices)
            guard.end()
        except BaseException as error:
            if not guard.took_too_long(error):
                raise
            return guard.give_up(error, "call", f"__getitems__({_shown(indices)})", UNKNOWN)
        return samples


class LimitedIterator:
    """Stands in for the iterator of an iterable dataset."""

    def __init__(self, iterator: Any, guard: SampleGuard) -> None:
        self._iterator = iterator
        self._guard = guard
        self._count = 0

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        guard = self._guard
        if not guard.watches:
            return next(self._iterator)
        number, self._count = self._count, self._count + 1
        try:
            guard.begin(number)
            sample = next(self._iterator)
            guard.end()
        except BaseException as error:
            if not guard.took_too_long(error):
                raise
            return guard.give_up(error, "number", str(number), number)
        return sample

    def __getattr__(self, name: str) -> Any:
        if name in ("_iterator", "_guard"):
            raise AttributeError(name)
        return getattr(self._iterator, name)


class LimitedCollate:
    """Stands in for a ``collate_fn``, which gets only the samples that were not left out."""

    def __init__(self, collate: Callable[[Any], Any], guard: SampleGuard) -> None:
        self._collate = collate
        self._guard = guard

    def __call__(self, samples: Any) -> Any:
        left_out = self._guard.begin_collate()
        if left_out:
            samples = [sample for sample in samples if sample is not LEFT_OUT]
            if not samples:
                return EmptyBatch(left_out)
        return self._collate(samples)


def limit_fetcher(fetcher: Any, guard: SampleGuard) -> None:
    """Enforce the limit on each sample that this fetcher reads."""
    collate = vars(fetcher)["collate_fn"]
    if isinstance(collate, LimitedCollate):
        return
    if hasattr(fetcher, "dataset_iter"):
        fetcher.dataset_iter = LimitedIterator(fetcher.dataset_iter, guard)
    elif ask(lambda: reads_at_once(fetcher.dataset)):
        fetcher.dataset = LimitedBatches(fetcher.dataset, guard)
    else:
        fetcher.dataset = LimitedDataset(fetcher.dataset, guard)
    fetcher.collate_fn = LimitedCollate(collate, guard)


def limit_worker(limit: SampleLimit, worker: int, ring: RingWriter | None) -> None:
    """Enforce the limit in every fetcher that this worker creates from now on."""
    note = limit.note_path(worker, os.getpid())
    of = {"option": limit.option, "loader": limit.name}
    kind: Any = getattr(torch_data, "_DatasetKind", None)
    create = getattr(kind, "create_fetcher", None)
    try:
        deadline = Deadline(limit.signals, note)
    except OSError as error:
        say_once(in_own_language("limit-not-in-workers", **of, error=str(error)))
        return
    if create is None:
        say_once(in_own_language("limit-needs-fetchers", **of))
        return
    # A worker ends without running atexit. The note of a worker that is ended stays for the training process.
    Finalize(None, note.unlink, kwargs={"missing_ok": True}, exitpriority=-100)
    guard = SampleGuard(limit, deadline, worker, ring)
    limited = shield(limit_fetcher)

    def create_fetcher(*args: Any, **kwargs: Any) -> Any:
        fetcher = create(*args, **kwargs)
        limited(fetcher, guard)
        return fetcher

    kind.create_fetcher = staticmethod(create_fetcher)


def _shown(index: Any) -> str:
    text = ask(lambda: repr(index)) or type(index).__name__
    return text if len(text) <= 80 else text[:77] + "..."
