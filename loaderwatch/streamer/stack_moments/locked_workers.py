"""When stacks of waiting workers are worth their signals: while the loop waits for data, and most workers for a lock, a timer or an
answer; or all of them, while it waits for long.

An answer may be that of whoever hands out a lock, as a ``multiprocessing.Manager`` does. A worker that waits for a disk is never asked: its
kernel function says what it waits for.
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
"""The last looks, one a second, that tell what workers wait for."""
WAITING_RATIO: Final = 0.35
"""Share of these looks at a worker, on average, that found it waiting for one of them."""
LOOP_WAITS_RATIO: Final = 0.2
"""Share of its time that the loop waits for data, where it does so at every step."""
MOST_ASKED: Final = 3
"""Workers at a time; the others wait at the same line, as a rule."""


class LockedWorkers:
    """Follows what the workers of each rank wait for."""

    def __init__(self, last: LastStacks) -> None:
        self._waits: dict[int, deque[float]] = {}  # by rank: share of its workers that waited, by look
        self._budget = StackBudget(last, LOCK_WAIT)

    def due(
        self,
        roster: Roster,
        readings: Mapping[int, Reading],
        usual_ns: Mapping[int, tuple[float, float]],
        now_ns: int,
    ) -> list[tuple[int, frozenset[int]]]:
        """Return of which ranks' workers, by pid, stacks should be taken now, and count them as taken.

        Args:
            roster: the processes of the run on this host.
            readings: of this second, by pid.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        found = []
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
                found.append((rank, frozenset(pids)))
        return found


def _waits(member: Member, reading: Reading) -> bool:
    values = reading.values
    if values.get("lock_wait") or values.get("timer_wait"):
        return True
    span = member.ring.span() if values.get("answer_wait") else None
    return span is not None and span.phase is Phase.FETCH  # and not for its next indices
