"""Times one fetch: each sample, collating, CPU time, bytes. In a worker, or on the training thread with no workers.

The fetcher object's class is swapped. The dataset stays untouched, and while ``dataset[index]`` runs, the only frame
of ours on the stack is ``fetch`` itself: samples are noted by the list of indices, between its items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from time import thread_time_ns
from typing import Any, Final

import numpy
import torch

from loaderwatch.agent.guard import ask, guard, shield
from loaderwatch.agent.hot import SampleClock
from loaderwatch.agent.plain.layout import CPU_CLOCK_ABOVE_NS
from loaderwatch.agent.plain.samples import plain_index
from loaderwatch.agent.swap import hidden_subclass
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import RingWriter

MAX_PARTS: Final = 64
"""Parts of a batch that are measured; what is beyond is not counted."""
MAX_DEPTH: Final = 4
_classes: Final[dict[Any, Any]] = {}
_array_bytes: Any = numpy.ndarray.nbytes  # not that of a subclass


class FetchClock(SampleClock):
    """The clock of one fetching process. ``worker`` is -1 for the training thread, which keeps its own open span."""

    def __init__(self, ring: RingWriter, loader: int, worker: int) -> None:
        super().__init__()
        self.ring = ring
        self.loader = loader
        self.worker = worker
        self.ordinal = 0
        self.collate_since_ns = UNKNOWN
        self._armed = True
        self._ended_ns = monotonic_ns()
        self._began_ns = 0
        self._began_cpu_ns = 0

    def begin(self, fetcher: Any, indices: Any) -> Any:
        """A fetch begins; returns what to hand to the fetcher instead of ``indices``."""
        now = monotonic_ns()
        self._began_ns = now
        self.slow_index = self.slow_ns = UNKNOWN
        self.count = 0
        self.sample_since_ns = 0
        self.collate_since_ns = UNKNOWN
        handed = indices
        index = UNKNOWN
        ordinals = hasattr(fetcher, "dataset_iter")  # an iterable dataset has no indices: samples are counted
        if not fetcher.auto_collation:
            self.count = 1
            index = self.samples if ordinals else plain_index(indices)
            self.sample_since_ns = now
            self.slow_index = index
        elif type(indices) is list:
            if getattr(fetcher.dataset, "__getitems__", None) and not ordinals:
                self.count = len(indices)
            else:
                handed = TimedIndices(indices, self, ordinals)
        if self.worker >= 0:
            self.ring.set_span(
                Phase.FETCH,
                now,
                self.loader,
                sample_index=index,
                sample_since_ns=now if index != UNKNOWN else UNKNOWN,
                batches=self.ordinal,
                samples=self.samples,
            )
        elif index != UNKNOWN:
            self.ring.set_sample(index, now)
        # a system call, and nobody asks where the time of a short fetch on the training thread went
        self._began_cpu_ns = thread_time_ns() if self.worker >= 0 or self._armed else 0
        return handed

    def collate(self) -> None:
        """The samples are read; joining them begins."""
        now = monotonic_ns()
        if self.sample_since_ns and self.slow_ns == UNKNOWN:  # one sample without a list
            self.slow_ns = now - self.sample_since_ns
        self.collate_since_ns = now
        if self.worker >= 0:
            self.ring.set_span(
                Phase.COLLATE,
                now,
                self.loader,
                batches=self.ordinal,
                samples=self.samples + self.count,
            )
        else:
            self.ring.set_sample(UNKNOWN, UNKNOWN)

    def end(self, batch: Any) -> None:
        """The fetch ended with a batch."""
        now = monotonic_ns()
        cpu = thread_time_ns() - self._began_cpu_ns if self._began_cpu_ns else UNKNOWN
        self._armed = now - self._began_ns > CPU_CLOCK_ABOVE_NS
        self.ring.append(
            RecordKind.FETCH,
            self.loader,
            self.worker,
            self.ordinal,
            self._began_ns,
            now - self._began_ns,
            now - self.collate_since_ns if self.collate_since_ns != UNKNOWN else UNKNOWN,
            cpu,
            self._began_ns - self._ended_ns,
            self.count if self.count else UNKNOWN,
            self.slow_index,
            self.slow_ns,
            batch_bytes(batch),
        )
        self.ordinal += 1
        self.idle()

    def idle(self) -> None:
        """Nothing is being fetched: between fetches, after one that failed, or after a dataset was exhausted."""
        now = monotonic_ns()
        self.samples += self.count
        self.count = 0
        self._ended_ns = now
        if self.worker >= 0:
            self.ring.set_span(Phase.IDLE, now, self.loader, batches=self.ordinal, samples=self.samples)
        else:
            self.ring.set_sample(UNKNOWN, UNKNOWN)


class TimedIndices(list[Any]):
    """A batch's indices; going through them notes when each sample's reading begins."""

    __slots__ = ("_clock", "_ordinals")

    def __init__(self, indices: Sequence[Any], clock: FetchClock, ordinals: bool) -> None:
        super().__init__(indices)
        self._clock = clock
        self._ordinals = ordinals

    def __iter__(self) -> Iterator[Any]:
        return self._clock.walk(list.__iter__(self), self._clock.ring.memory, self._ordinals)


def batch_bytes(batch: Any) -> int:
    """Bytes of the tensors and arrays in a batch, as far as a bounded look finds them; ``UNKNOWN`` if it finds none.

    No code of the user's runs: a batch may load on access, count what is asked of it, or refuse.
    """
    total = 0
    found = False
    parts: list[tuple[Any, int]] = [(batch, 0)]
    looked = 0
    while parts and looked < MAX_PARTS:
        part, depth = parts.pop()
        looked += 1
        kind = type(part)
        if issubclass(kind, (torch.Tensor, numpy.ndarray)):
            size = _nbytes(part)
            if size is not None:
                total += size
                found = True
        elif depth < MAX_DEPTH:
            if issubclass(kind, dict):
                parts.extend((value, depth + 1) for value in islice(dict.values(part), MAX_PARTS))
            elif issubclass(kind, list):
                parts.extend((value, depth + 1) for value in islice(list.__iter__(part), MAX_PARTS))
            elif issubclass(kind, tuple):
                parts.extend((value, depth + 1) for value in islice(tuple.__iter__(part), MAX_PARTS))
    return total if found else UNKNOWN


def _nbytes(part: Any) -> int | None:
    if type(part) is torch.Tensor and part.layout is torch.strided:
        return part.nbytes
    if isinstance(part, numpy.ndarray):
        return int(_array_bytes.__get__(part))
    return ask(lambda: _tensor_bytes(part))  # e.g. a nested tensor, which does not say


def _tensor_bytes(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.nbytes


def watch_fetcher(fetcher: Any, clock: FetchClock) -> None:
    """Swap the fetcher's class."""
    base = type(fetcher)
    fetcher._loaderwatch = clock
    if base in _classes.values():
        return
    watched = _classes.get(base)
    if watched is None:
        namespace = {
            "fetch": _timed_fetch(base.fetch),
            "collate_fn": _noted_collate(),
        }
        watched = _classes[base] = hidden_subclass(base, namespace)
    fetcher.__class__ = watched


def _timed_fetch(call: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    begin = shield(FetchClock.begin)
    end = shield(FetchClock.end)
    idle = shield(FetchClock.idle)

    def fetch(self: Any, possibly_batched_index: Any) -> Any:
        clock = self._loaderwatch
        if guard.tripped:
            return call(self, possibly_batched_index)
        handed = begin(clock, self, possibly_batched_index)
        if handed is None:
            handed = possibly_batched_index
        try:
            batch = call(self, handed)
        except BaseException:
            idle(clock)
            raise
        end(clock, batch)
        return batch

    return fetch


def _noted_collate() -> property:
    """``collate_fn`` is looked up right before it is called: that is when collating begins."""
    collate = shield(FetchClock.collate)

    def read(self: Any) -> Any:
        collate(self._loaderwatch)
        return self.__dict__["collate_fn"]

    def write(self: Any, function: Any) -> None:
        self.__dict__["collate_fn"] = function

    return property(read, write)
