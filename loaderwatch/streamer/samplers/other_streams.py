"""Ranks that compute on another stream than the one on which they ask for batches, seen by NVML.

An event knows its own stream only. On one that has nothing to do it completes at once, so that by events the GPU starves for
as long as the loop waits, whatever it computes elsewhere. NVML knows the whole GPU: it cannot have lacked its batches for
longer than it was idle. Where it was idle for much less than the events say, they are not believed: a batch's share of what
NVML shows counts as starved, and the rest of its time belongs to the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, RecordKind

LOOK_BACK_NS: Final = 6 * SECOND_NS
READING_NS: Final = SECOND_NS
"""A reading is a mean of up to so long before it (nvml.h: a sixth of a second to a second)."""
FEW_READINGS: Final = 10
"""One second's."""
HOLD_NS: Final = 10 * SECOND_NS
"""For so long rows that say a GPU starves wait for NVML's first readings."""
LESS_BY: Final = 0.1
"""By so much of all time NVML must show the GPU less idle than the events do: what counts for an alert."""
LESS_THAN: Final = 0.75
"""And by a quarter of what they say, which is more than readings are late or rounded."""

Row = tuple[int, ...]
_FIELDS: Final[tuple[str, ...]] = ("rank", *RECORD_FIELDS[RecordKind.GPU_WAIT])
_REQUEST, _STARVED, _STEP = (_FIELDS.index(name) for name in ("request_ns", "starved_ns", "gpu_step_ns"))
_NOT_KNOWN: Final = tuple(map(_FIELDS.index, _FIELDS[_FIELDS.index("slack_ns") :]))
"""What events on an idle stream say nothing of: the work that was left, and the phases."""


class OtherStreams:
    """Compares what each rank's events call starved with what NVML shows. Times are ns, monotonic."""

    def __init__(self) -> None:
        self._readings: dict[int, deque[tuple[int, float]]] = {}  # by rank: when, and the share it was idle
        self._waits: dict[int, deque[tuple[int, int, int]]] = {}  # by rank: request, starved, whole iteration
        self._held: dict[int, list[Row]] = {}  # by rank: rows of its first seconds
        self._first_ns: dict[int, int] = {}  # by rank: its first request
        self.ranks: set[int] = set()
        """Those whose events are not believed now."""

    def see(self, rank: int, now_ns: int, used: float, *, alone: bool) -> None:
        """Take in a reading of the rank's GPU: how much it was used, 0 to 1. ``alone``: by nobody but this rank, as far as is known."""
        readings = self._readings.setdefault(rank, deque())
        if not alone:
            readings.clear()  # it may have worked for the others
            return
        readings.append((now_ns, 1.0 - used))
        while readings[0][0] < now_ns - LOOK_BACK_NS - 2 * READING_NS:
            readings.popleft()

    def believed(self, rows: Sequence[Row], wall_offset_ns: int = 0, *, hold: bool = False) -> list[Row]:
        """Return rows of the table ``gpu_waits``, whose times are UTC, with as much starved of them as NVML shows at most.

        ``hold``: keep those of a rank's first seconds for a later call, where NVML has not shown yet whether they are right.
        """
        for row in rows:
            if min(row[_REQUEST], row[_STARVED], row[_STEP]) < 0:
                continue
            began_ns = row[_REQUEST] - wall_offset_ns
            waits = self._waits.setdefault(row[0], deque())
            waits.append((began_ns, row[_STARVED], row[_STARVED] + row[_STEP]))
            while waits[0][0] < began_ns - LOOK_BACK_NS - 2 * READING_NS:
                waits.popleft()
            self._first_ns.setdefault(row[0], began_ns)
        by_rank, self._held = self._held, {}
        for row in rows:
            by_rank.setdefault(row[0], []).append(row)
        result = []
        for rank, of in by_rank.items():
            part = self._believed_part(rank)
            if part is None and hold and self._may_be_wrong(rank):
                self._held[rank] = of
                continue
            (self.ranks.add if part is not None and part < 1.0 else self.ranks.discard)(rank)
            result += [_scaled(row, 1.0 if part is None else part) for row in of]
        return result

    @property
    def waiting(self) -> set[int]:
        """The ranks whose rows are kept, until NVML tells."""
        return set(self._held)

    @property
    def held(self) -> list[Row]:
        """The rows that are kept for a later call."""
        return [row for of in self._held.values() for row in of]

    def _may_be_wrong(self, rank: int) -> bool:
        """Whether events tell of a GPU that has starved since a rank's first batch, a few seconds ago."""
        waits = self._waits.get(rank)
        if not waits or waits[-1][0] - self._first_ns[rank] > HOLD_NS:
            return False
        return sum(wait[1] for wait in waits) >= LESS_THAN * sum(wait[2] for wait in waits)

    def _believed_part(self, rank: int) -> float | None:
        """Return how much of what a rank's events call starved NVML can confirm, 0 to 1; None where it does not tell.

        Readings tell of the time before them, by an unknown lag: the one counts under which the GPU was idle for longer.
        """
        readings, waits = self._readings.get(rank) or deque(), self._waits.get(rank) or deque()
        if len(readings) < FEW_READINGS:
            return None
        until_ns = readings[-1][0] - READING_NS
        since_ns = until_ns - LOOK_BACK_NS
        compared = [wait for wait in waits if since_ns <= wait[0] and wait[0] + wait[2] <= until_ns]
        if not compared:
            return None
        began_ns, ended_ns = compared[0][0], compared[-1][0] + compared[-1][2]
        starved = sum(wait[1] for wait in compared) / max(1, ended_ns - began_ns)
        idle = 0.0
        for lag_ns in (0, READING_NS):
            of = [share for at_ns, share in readings if began_ns <= at_ns - lag_ns <= ended_ns]
            if len(of) < FEW_READINGS:
                return None
            idle = max(idle, sum(of) / len(of))
        if starved - idle < LESS_BY or idle > LESS_THAN * starved:
            return 1.0
        return idle / starved


def _scaled(row: Row, part: float) -> Row:
    """Return the row with a part of its starved time; an iteration takes as long as before."""
    if part >= 1.0 or row[_STARVED] == UNKNOWN:
        return row
    values = list(row)
    values[_STARVED] = int(row[_STARVED] * part)
    if row[_STEP] != UNKNOWN:
        values[_STEP] = row[_STEP] + row[_STARVED] - values[_STARVED]
    for place in _NOT_KNOWN:
        values[place] = UNKNOWN
    return tuple(values)
