"""The fetches of one process, and the samples of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic_ns, thread_time_ns
from typing import Any, Final

from loaderwatch.agent.hot.layout import (
    AT_ONCE,
    COLLATE,
    CPU_CLOCK_ABOVE_NS,
    EACH,
    EACH_COUNTED,
    FETCH,
    IDLE,
    ONE,
    ONE_COUNTED,
)
from loaderwatch.core.records import UNKNOWN, RecordKind
from loaderwatch.core.ring import RingWriter
from loaderwatch.core.span import BATCHES_WORD, SAMPLES_WORD

_MAX_INDEX: Final = 2**62


class SampleClock:
    """The clock of one fetching process. Times are nanoseconds, monotonic.

    The open span of a worker is told by single words, and the reader takes the phase that began last: so each is stored
    before what ends with it is.

    Args:
        ring: of this process.
        loader: its number.
        worker: -1 for the training thread, which keeps its own open span.
        weigh: gives the bytes of a batch.
    """

    def __init__(self, ring: RingWriter, loader: int, worker: int, weigh: Callable[[Any], int]) -> None:
        self._ring = ring
        self._weigh = weigh
        self.loader = loader
        self.worker = worker
        self.ordinal = 0  # fetches before
        self.samples = 0  # of all fetches before
        self.count = 0  # read in this fetch
        self.slow_index = UNKNOWN
        self.slow_ns = UNKNOWN
        self.sample_since_ns = 0
        self._collate_since_ns = UNKNOWN
        self._armed = True
        self._fetching = False
        self._began_ns = self._ended_ns = monotonic_ns()
        self._began_cpu_ns = 0

    def begin(self, reads: int, indices: Any) -> Any:
        """A fetch begins, of a fetcher that reads so; returns what to hand to it instead of ``indices``."""
        self._began_ns = now = monotonic_ns()
        self.slow_index = self.slow_ns = self._collate_since_ns = index = UNKNOWN
        self.count = self.sample_since_ns = 0
        self._fetching = True
        handed = indices
        if reads in (ONE, ONE_COUNTED):
            self.count = 1
            self.slow_index = index = plain_index(indices) if reads == ONE else self.samples
            self.sample_since_ns = now
        elif type(indices) is list:
            if reads == AT_ONCE:
                self.count = len(indices)
            elif reads in (EACH, EACH_COUNTED):
                handed = TimedIndices(indices)
                handed.clock, handed.counted = self, reads == EACH_COUNTED
        if index != UNKNOWN:
            self._ring.set_sample(index, now)
        if self.worker >= 0:
            self._ring.words[FETCH] = now
        # a system call, and nobody asks where the time of a short fetch on the training thread went
        self._began_cpu_ns = thread_time_ns() if self.worker >= 0 or self._armed else 0
        return handed

    def walk(self, indices: Iterator[Any], counted: bool) -> Iterator[Any]:
        """The indices, noting when each sample's reading begins; ``counted``: samples are named by their number."""
        slow_ns = UNKNOWN
        since = monotonic_ns()
        for count, index in enumerate(indices, 1):
            named = self.samples + count - 1 if counted else plain_index(index)
            if self._fetching:  # else its fetch is over
                self._ring.set_sample(named, since)
            self.sample_since_ns = since
            yield index
            now = monotonic_ns()
            if now - since > slow_ns:
                slow_ns = now - since
                self.slow_ns, self.slow_index = slow_ns, named
            since = now
            self.count = count

    def collate(self) -> None:
        """The samples are read; joining them begins."""
        now = monotonic_ns()
        if self.sample_since_ns and self.slow_ns == UNKNOWN:  # one sample without a list
            self.slow_ns = now - self.sample_since_ns
        self._collate_since_ns = now
        if not self._fetching:
            return
        if self.worker >= 0:
            words = self._ring.words
            words[SAMPLES_WORD] = self.samples + self.count
            words[COLLATE] = now
        self._ring.set_sample(UNKNOWN, UNKNOWN)

    def end(self, batch: Any) -> None:
        """The fetch ended with a batch."""
        now = monotonic_ns()
        cpu = thread_time_ns() - self._began_cpu_ns if self._began_cpu_ns else UNKNOWN
        self._armed = now - self._began_ns > CPU_CLOCK_ABOVE_NS
        self._ring.append(
            RecordKind.FETCH,
            self.loader,
            self.worker,
            self.ordinal,
            self._began_ns,
            now - self._began_ns,
            now - self._collate_since_ns if self._collate_since_ns != UNKNOWN else UNKNOWN,
            cpu,
            self._began_ns - self._ended_ns,
            self.count if self.count else UNKNOWN,
            self.slow_index,
            self.slow_ns,
            self._weigh(batch),
        )
        self.ordinal += 1
        self.idle()

    def idle(self) -> None:
        """Nothing is being fetched: between fetches, after one that failed, or after a dataset was exhausted."""
        self._ended_ns = now = monotonic_ns()
        self.samples += self.count
        self.count = 0
        self._fetching = False
        self._ring.set_sample(UNKNOWN, UNKNOWN)
        if self.worker >= 0:
            words = self._ring.words
            words[BATCHES_WORD] = self.ordinal
            words[SAMPLES_WORD] = self.samples
            words[IDLE] = now
            words[FETCH] = words[COLLATE] = UNKNOWN


class TimedIndices(list[Any]):
    """A batch's indices; going through them notes when each sample's reading begins. Copies and pickles of it are lists."""

    __slots__ = ("clock", "counted")

    clock: SampleClock
    counted: bool

    def __iter__(self) -> Iterator[Any]:
        indices = list.__iter__(self)
        clock = getattr(self, "clock", None)
        return indices if clock is None else clock.walk(indices, self.counted)

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (self[:],)


def plain_index(index: Any) -> int:
    """The index as a number; ``UNKNOWN`` for keys of another kind."""
    return index if type(index) is int and -_MAX_INDEX < index < _MAX_INDEX else UNKNOWN
