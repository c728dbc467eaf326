"""The clock of a process's fetches and their samples, in Python."""

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
from loaderwatch.core.ring.span import BATCHES_WORD, SAMPLES_WORD

_MAX_INDEX: Final = 2**62


class SampleClock:
    """The clock of one fetching process. Times are monotonic nanoseconds.

    A worker's open span is written word by word, and its reader takes the phase that began last. So a new
    phase's word is written before the word of the ended phase.

    ``worker`` is the worker's number; -1 means the training thread, which writes its own open span. ``weigh``
    returns a batch's size in bytes.
    """

    def __init__(self, ring: RingWriter, loader: int, worker: int, weigh: Callable[[Any], int]) -> None:
        self._ring = ring
        self._weigh = weigh
        self.loader = loader
        self.worker = worker
        self.ordinal = 0  # fetches before this one
        self.samples = 0  # samples of all fetches before this one
        self.count = 0  # samples read in this fetch
        self.slow_index = UNKNOWN
        self.slow_ns = UNKNOWN
        self.sample_since_ns = 0
        self._collate_since_ns = UNKNOWN
        self._armed = True
        self._fetching = False
        self._began_ns = self._ended_ns = monotonic_ns()
        self._began_cpu_ns = 0

    def begin(self, reads: int, indices: Any) -> Any:
        """Note that a fetch begins; return the argument for ``fetch``. ``reads`` is EACH … ONE_COUNTED."""
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
                handed.first, handed.done = self.samples, UNKNOWN
        if index != UNKNOWN:
            self._ring.set_sample(index, now)
        if self.worker >= 0:
            self._ring.words[FETCH] = now
        # This clock is a system call, and a short fetch on the training thread needs no explanation.
        self._began_cpu_ns = thread_time_ns() if self.worker >= 0 or self._armed else 0
        return handed

    def walk(self, indices: Iterator[Any], counted: bool) -> Iterator[Any]:
        """Yield the indices and note when each sample's read begins; ``counted`` samples have no index."""
        slow_ns = UNKNOWN
        since_ns = monotonic_ns()
        for count, index in enumerate(indices, 1):
            sample = self.samples + count - 1 if counted else plain_index(index)
            if self._fetching:  # false when the generator is read after its fetch
                self._ring.set_sample(sample, since_ns)
            self.sample_since_ns = since_ns
            yield index
            now = monotonic_ns()
            if now - since_ns > slow_ns:
                slow_ns = now - since_ns
                self.slow_ns, self.slow_index = slow_ns, sample
            since_ns = now
            self.count = count

    def collate(self) -> None:
        """Note that all samples are read and collating begins."""
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
        """Note that the fetch ended with a batch."""
        now = monotonic_ns()
        cpu_ns = thread_time_ns() - self._began_cpu_ns if self._began_cpu_ns else UNKNOWN
        self._armed = now - self._began_ns > CPU_CLOCK_ABOVE_NS
        self._ring.append(
            RecordKind.FETCH,
            loader=self.loader,
            worker=self.worker,
            ordinal=self.ordinal,
            request_ns=self._began_ns,
            fetch_ns=now - self._began_ns,
            collate_ns=now - self._collate_since_ns if self._collate_since_ns != UNKNOWN else UNKNOWN,
            cpu_ns=cpu_ns,
            idle_ns=self._began_ns - self._ended_ns,
            samples=self.count if self.count else UNKNOWN,
            slow_index=self.slow_index,
            slow_ns=self.slow_ns,
            bytes=self._weigh(batch),
        )
        self.ordinal += 1
        self.idle()

    def idle(self) -> None:
        """Note that no fetch runs: between fetches, after a failed fetch, or at the end of the dataset."""
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
    """A batch's indices: notes when each sample's read begins. Copies and pickles are plain lists."""

    __slots__ = ("clock", "counted", "done", "first")

    clock: SampleClock
    counted: bool
    first: int  # samples of all fetches before this one
    done: int  # samples read before this fetch failed; the next sample is the failed one

    def __iter__(self) -> Iterator[Any]:
        indices = list.__iter__(self)
        clock = getattr(self, "clock", None)
        return indices if clock is None else clock.walk(indices, self.counted)

    def __reduce__(self) -> tuple[type[list[Any]], tuple[list[Any]]]:
        return list, (self[:],)


def plain_index(index: Any) -> int:
    """Return the index if it is a number; ``UNKNOWN`` for keys of another type."""
    return index if type(index) is int and -_MAX_INDEX < index < _MAX_INDEX else UNKNOWN
