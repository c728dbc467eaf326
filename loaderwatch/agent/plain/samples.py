"""The samples of a fetch."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic_ns
from typing import Any, Final

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import Memory
from loaderwatch.core.span import SAMPLE_AT, pack_sample

_MAX_INDEX: Final = 2**62


class SampleClock:
    """The samples of one fetch, and those before. Times are nanoseconds, monotonic."""

    def __init__(self) -> None:
        self.samples = 0  # of all fetches before
        self.count = 0  # read in this fetch
        self.slow_index = UNKNOWN
        self.slow_ns = UNKNOWN
        self.sample_since_ns = 0

    def walk(self, indices: Iterator[Any], memory: Memory, ordinals: bool) -> Iterator[Any]:
        """The indices, noting when each sample's reading begins.

        Args:
            indices: of the fetch.
            memory: of the ring whose open span shows the sample.
            ordinals: samples are named by their number, not by their index.
        """
        slow_ns = UNKNOWN
        since = monotonic_ns()
        for count, index in enumerate(indices, 1):
            named = self.samples + count - 1 if ordinals else plain_index(index)
            pack_sample(memory, SAMPLE_AT, named, since)
            self.sample_since_ns = since
            yield index
            now = monotonic_ns()
            if now - since > slow_ns:
                slow_ns = now - since
                self.slow_ns, self.slow_index = slow_ns, named
            since = now
            self.count = count


def plain_index(index: Any) -> int:
    """The index as a number; ``UNKNOWN`` for keys of another kind."""
    return index if type(index) is int and -_MAX_INDEX < index < _MAX_INDEX else UNKNOWN
