"""When to take stacks of waiting workers: the loop waits for data, and they wait for a lock, timer or answer.

Either most workers wait so at every step, or all of them do during one long wait. An answer may come from the
process that hands out a lock, as a ``multiprocessing.Manager`` does. A worker that waits for a disk
is not asked: its kernel function already says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from loaderwatch.core.facts import LOCK_WAIT
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Member, Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import LastStacks, StackBudget, waits_long

LOOKS: Final = 6
"""Looks considered, one a second."""
WAITING_RATIO: Final = 0.35
"""Mean share of the workers that wait for a lock, timer or answer in these looks."""
LOOP_WAITS_RATIO: Final = 0.2
"""Share of its time from which on a loop counts as waiting for data at every step."""
MOST_ASKED: Final = 3
"""Workers asked at a time; the others usually wait at the same line."""


class LockedWorkers:
    """Follows what each rank's workers wait for."""

    def __init__(self, last: LastStacks) -> None:
        self._waits: dict[int, deque[float]] = {}  # by rank: share of its workers that waited, per look
        self._budget = StackBudget(last, LOCK_WAIT)

    def due(
        self,
        roster: Roster,
        readings: Mapping[int, Reading],
        usual_ns: Mapping[int, tuple[float, float]],
        now_ns: int,
    ) -> list[tuple[int, frozenset[int]]]:
        """Return the ranks and worker pids to take stacks of now, and count them as taken.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        due_stacks = []
        for rank, main in roster.newest_by_rank().items():
            workers = [m for m in roster.of_rank(rank) if m.worker >= 0 and m.alive and m.pid in readings]
            if len(workers) < 2:
                self._waits.pop(rank, None)
                continue
            waiting = [member.pid for member in workers if _waits(member, readings[member.pid])]
            looks = self._waits.setdefault(rank, deque(maxlen=LOOKS))
            looks.append(len(waiting) / len(workers))
            wait_ns, step_ns = usual_ns.get(rank, (0.0, 0.0))
            often = len(looks) == LOOKS and sum(looks) >= WAITING_RATIO * LOOKS
            starved = often and wait_ns > LOOP_WAITS_RATIO * (wait_ns + step_ns)
            locked_out = len(waiting) == len(workers) and waits_long(main, now_ns)
            pids = waiting[:MOST_ASKED]
            if pids and (starved or locked_out) and self._budget.take(rank, pids, now_ns):
                due_stacks.append((rank, frozenset(pids)))
        return due_stacks


def _waits(member: Member, reading: Reading) -> bool:
    values = reading.values
    if values.get("lock_wait") or values.get("timer_wait"):
        return True
    span = member.ring.span() if values.get("answer_wait") else None
    return span is not None and span.phase is Phase.FETCH  # else it waits for its next indices
