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

LOOK_BACK_NS: Final = 10 * SECOND_NS
READING_NS: Final = SECOND_NS
"""A reading is a mean of up to so long before it (nvml.h: a sixth of a second to a second)."""
FEW_READINGS: Final = 20
"""Two seconds, at ten a second."""
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

    def believed(self, rows: Sequence[Row], wall_offset_ns: int = 0) -> list[Row]:
        """Return new rows of the table ``gpu_waits``, whose times are UTC, with as much starved of them as NVML shows at most."""
        for row in rows:
            waits = self._waits.setdefault(row[0], deque())
            if min(row[_REQUEST], row[_STARVED], row[_STEP]) < 0:
                continue
            waits.append((row[_REQUEST] - wall_offset_ns, row[_STARVED], row[_STARVED] + row[_STEP]))
            newest_ns = waits[-1][0]
            while waits[0][0] < newest_ns - LOOK_BACK_NS - 2 * READING_NS:
                waits.popleft()
        parts = {rank: self._believed_part(rank) for rank in {row[0] for row in rows}}
        self.ranks = (self.ranks - parts.keys()) | {rank for rank, part in parts.items() if part < 1.0}
        return [_scaled(row, parts[row[0]]) for row in rows]

    def _believed_part(self, rank: int) -> float:
        """Return how much of what a rank's events call starved NVML can confirm, 0 to 1.

        Readings tell of the time before them, by an unknown lag: the one counts under which the GPU was idle for longer.
        """
        readings, waits = self._readings.get(rank) or deque(), self._waits[rank]
        if len(readings) < FEW_READINGS:
            return 1.0
        until_ns = readings[-1][0] - READING_NS
        since_ns = until_ns - LOOK_BACK_NS
        compared = [wait for wait in waits if since_ns <= wait[0] and wait[0] + wait[2] <= until_ns]
        if not compared:
            return 1.0
        began_ns, ended_ns = compared[0][0], compared[-1][0] + compared[-1][2]
        starved = sum(wait[1] for wait in compared) / max(1, ended_ns - began_ns)
        idle = 0.0
        for lag_ns in (0, READING_NS):
            of = [share for at_ns, share in readings if began_ns <= at_ns - lag_ns <= ended_ns]
            if len(of) < FEW_READINGS:
                return 1.0
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
