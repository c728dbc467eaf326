"""When and how often stacks are taken that nobody asked for: a handful an hour of each rank."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Member

HOUR_NS: Final = 3600 * SECOND_NS
APART_NS: Final = (0, 5 * SECOND_NS, 300 * SECOND_NS, 600 * SECOND_NS, 900 * SECOND_NS, 1200 * SECOND_NS)
"""How long after the one before a stack is taken at the earliest, by how many there were within the hour. It is a handful, and
spread, so that what begins later gets one, too."""

OF_ONE_APART_NS: Final = (0, SECOND_NS, SECOND_NS, SECOND_NS, 300 * SECOND_NS, 1200 * SECOND_NS)
"""The same where only one process is asked at a time: as many, and the first ones soon, since its usual line shows in several."""

OF_A_PART_APART_NS: Final = (0, *(SECOND_NS,) * 5, 300 * SECOND_NS, 1200 * SECOND_NS)
"""Two more of these for a part of a step: in short steps the loop may have gone on to another when its signal comes."""

LONG_WAIT_NS: Final = 250_000_000
"""A single wait for data that is worth stacks of those it is for."""


def waits_long(main: Member, now_ns: int) -> bool:
    """Whether a training process has waited for its next batch for long."""
    span = main.ring.span() if main.alive else None
    return span is not None and span.phase is Phase.WAIT and now_ns - span.since_ns >= LONG_WAIT_NS


class StackBudget:
    """Counts the stacks that were taken of each rank for one reason."""

    def __init__(self, apart_ns: tuple[int, ...] = APART_NS) -> None:
        self._apart_ns = apart_ns
        self._taken_ns: dict[int, list[int]] = {}  # by rank: when, within the last hour

    def take(self, rank: int, now_ns: int) -> bool:
        """Return whether a stack may be taken now, and count it if so."""
        taken = [at_ns for at_ns in self._taken_ns.get(rank, ()) if now_ns - at_ns < HOUR_NS]
        self._taken_ns[rank] = taken
        apart_ns = self._apart_ns
        if taken and (len(taken) == len(apart_ns) or now_ns - taken[-1] < apart_ns[len(taken)]):
            return False
        taken.append(now_ns)
        return True
