"""The courses of a run's loaders: what is kept beyond the recent past, computed in slices as rows arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.detect.loader_history import FIRST_SLICE_NS, LONGEST_SLICE_NS, Course
from loaderwatch.detect.measures.history_slices import slices_of
from loaderwatch.detect.measures.pace import paces_of
from loaderwatch.detect.measures.rebuilt_loaders import joined_rank
from loaderwatch.detect.window import WINDOW_S, RankWindow, distinct

LATE_NS: Final = 4_000_000_000
"""How long after its end a slice is computed: steps are recorded at their end, GPU times some steps later."""
SETTLING_NS: Final = 5_000_000_000
"""The beginning of a run has no slices: compilers, caches and clock rates settle."""
RANKS_AT_ONCE: Final = 32
"""With more ranks, first slices are longer, so that a thousand ranks cost no more than 32."""
BATCHES_IN_SLICE: Final = 8
"""Batches per loader that a slice should contain, up to the longest slice."""
MOST_LOADERS: Final = 8
"""Training loaders per rank whose course is kept. The least recently read one is dropped first."""


class Courses:
    """The courses of all ranks in one attempt of a run. Returned courses never change."""

    def __init__(self) -> None:
        self._kept: dict[int, Mapping[int, Course]] = {}
        self._made_ns: dict[int, int] = {}  # by rank: until when slices were computed

    def of(self, rank: int) -> Mapping[int, Course]:
        """Return the courses of a rank's training loaders so far."""
        return self._kept.get(rank, {})

    def follow(self, ranks: Mapping[int, RankWindow]) -> None:
        """Extend the courses by what is new in these windows."""
        factor = 1 << (len(ranks) // RANKS_AT_ONCE).bit_length()
        for rank in ranks.values():
            if rank.table("steps")["request_ns"].size:
                self._extend(rank, factor * FIRST_SLICE_NS)

    def _extend(self, rank: RankWindow, slice_ns: int) -> None:
        number, kept = rank.rank, dict(self.of(rank.rank))
        steps, loaders = rank.table("steps")["request_ns"], len(distinct(rank.table("steps")["loader"]))
        if number not in self._made_ns:
            # Ranks begin together. Their slices end one after the other, so that no look computes all slices.
            later_ns = int(slice_ns * (number * 0.618 % 1)) if slice_ns > FIRST_SLICE_NS else 0
            self._made_ns[number] = int(steps[0]) + SETTLING_NS + later_ns
        from_ns = max(self._made_ns[number], rank.made_ns - int(WINDOW_S * 1e9))
        if rank.made_ns - LATE_NS - from_ns < slice_ns:
            return
        slice_ns = max([slice_ns, *(course.slice_ns for course in kept.values())])
        while slice_ns < BATCHES_IN_SLICE * loaders * (int(steps[-1]) - int(steps[0])) / steps.size:
            slice_ns *= 2
        slice_ns = min(slice_ns, LONGEST_SLICE_NS)
        slices = (rank.made_ns - LATE_NS - from_ns) // slice_ns
        if not slices:
            return
        self._made_ns[number] = until_ns = from_ns + slices * slice_ns
        for pace in paces_of(joined_rank(rank)):
            newer = slices_of(pace, slice_ns, from_ns, until_ns)
            if newer.t_ns.size:
                previous = kept.pop(pace.loader.loader, None)
                kept[pace.loader.loader] = newer if previous is None else previous.with_slices(newer)
        self._kept[number] = dict(list(kept.items())[-MOST_LOADERS:])
