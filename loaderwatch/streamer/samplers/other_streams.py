"""Ranks that compute on another stream than the one on which they ask for batches, found with NVML.

An event knows only its own stream. On an idle stream it completes at once. By events the GPU then starves as
long as the loop waits, whatever it computes elsewhere. NVML knows the whole GPU, which cannot have lacked
batches for longer than it was idle. If it was idle for much less than the events say, they are not believed.
Then only the share of a batch's wait that NVML confirms is starved, and the rest belongs to the step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import RECORD_FIELDS, UNKNOWN, RecordKind

LOOK_BACK_NS: Final = 6 * SECOND_NS
READING_NS: Final = SECOND_NS
"""A reading is a mean over up to this time before it (nvml.h: a sixth of a second to a second)."""
FEW_READINGS: Final = 10
"""The readings of one second."""
HOLD_NS: Final = 10 * SECOND_NS
"""How long rows that report a starved GPU wait for NVML's first readings."""
LESS_BY: Final = 0.1
"""Share of all time by which NVML must show the GPU less idle than events do: what counts for an alert."""
LESS_THAN: Final = 0.75
"""NVML's idle share must also be below this part of the events': lag and rounding explain less."""

Row = tuple[int, ...]
_FIELDS: Final[tuple[str, ...]] = ("rank", *RECORD_FIELDS[RecordKind.GPU_WAIT])
_REQUEST, _STARVED, _STEP = (_FIELDS.index(name) for name in ("request_ns", "starved_ns", "gpu_step_ns"))
_NOT_KNOWN: Final = tuple(map(_FIELDS.index, _FIELDS[_FIELDS.index("slack_ns") :]))
"""Fields that events on an idle stream cannot tell: the remaining work and the phases."""


class OtherStreams:
    """Compares what each rank's events call starved with NVML. Times are monotonic ns."""

    def __init__(self) -> None:
        self._readings: dict[int, deque[tuple[int, float]]] = {}  # by rank: time, idle share
        self._waits: dict[int, deque[tuple[int, int, int]]] = {}  # by rank: request, starved, whole iteration
        self._held: dict[int, list[Row]] = {}  # by rank: rows of its first seconds
        self._first_ns: dict[int, int] = {}  # by rank: its first request
        self.ranks: set[int] = set()
        """Ranks whose events are not believed now."""

    def see(self, rank: int, now_ns: int, used: float, *, alone: bool) -> None:
        """Add a utilization (0 to 1) of the rank's GPU. ``alone``: no other known process uses that GPU."""
        readings = self._readings.setdefault(rank, deque())
        if not alone:
            readings.clear()  # it may have worked for the other processes
            return
        readings.append((now_ns, 1.0 - used))
        while readings[0][0] < now_ns - LOOK_BACK_NS - 2 * READING_NS:
            readings.popleft()

    def believed(self, rows: Sequence[Row], wall_offset_ns: int = 0, *, hold: bool = False) -> list[Row]:
        """Return rows of ``gpu_waits``, their starved time limited to what NVML shows. Times are UTC.

        ``hold``: keep rows of a rank's first seconds for a later call while NVML cannot confirm them yet.
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
        for rank, rank_rows in by_rank.items():
            part = self._believed_part(rank)
            if part is None and hold and self._may_be_wrong(rank):
                self._held[rank] = rank_rows
                continue
            (self.ranks.add if part is not None and part < 1.0 else self.ranks.discard)(rank)
            result += [_scaled(row, 1.0 if part is None else part) for row in rank_rows]
        return result

    @property
    def waiting(self) -> set[int]:
        """The ranks whose rows are kept until NVML confirms them."""
        return set(self._held)

    @property
    def held(self) -> list[Row]:
        """The rows kept for a later call."""
        return [row for rank_rows in self._held.values() for row in rank_rows]

    def _may_be_wrong(self, rank: int) -> bool:
        """Whether events say that the GPU has starved since a rank's first batch, a few seconds ago."""
        waits = self._waits.get(rank)
        if not waits or waits[-1][0] - self._first_ns[rank] > HOLD_NS:
            return False
        return sum(wait[1] for wait in waits) >= LESS_THAN * sum(wait[2] for wait in waits)

    def _believed_part(self, rank: int) -> float | None:
        """Return the share of a rank's starved time that NVML confirms, 0 to 1; None if unknown.

        Readings cover the time before them, with an unknown lag. The lag with the larger idle share counts.
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
            idle_shares = [share for at_ns, share in readings if began_ns <= at_ns - lag_ns <= ended_ns]
            if len(idle_shares) < FEW_READINGS:
                return None
            idle = max(idle, sum(idle_shares) / len(idle_shares))
        if starved - idle < LESS_BY or idle > LESS_THAN * starved:
            return 1.0
        return idle / starved


def _scaled(row: Row, part: float) -> Row:
    """Return the row with this part of its starved time; the iteration's total time stays."""
    if part >= 1.0 or row[_STARVED] == UNKNOWN:
        return row
    values = list(row)
    values[_STARVED] = int(row[_STARVED] * part)
    if row[_STEP] != UNKNOWN:
        values[_STEP] = row[_STEP] + row[_STARVED] - values[_STARVED]
    for place in _NOT_KNOWN:
        values[place] = UNKNOWN
    return tuple(values)
