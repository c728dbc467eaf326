"""When to take a training process's stack: it waits for another process or machine, step after step."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from loaderwatch.core.facts import ANSWER_WAIT
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import LastStacks, StackBudget

LOOKS: Final = 20
"""Looks considered, one a second."""
FEW_WAITS: Final = 4
"""Looks that must have found the process waiting within a step."""


class WaitingLoops:
    """Follows what the training process of each rank waits for."""

    def __init__(self, last: LastStacks) -> None:
        self._waits: dict[int, deque[bool]] = {}  # by rank: whether it waited, per look
        self._budget = StackBudget(last, ANSWER_WAIT)

    def due(
        self,
        roster: Roster,
        readings: Mapping[int, Reading],
        in_step: Callable[[int], int | None],
        now_ns: int,
    ) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            in_step: gives the pid of a rank's training process while it works on a batch.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            reading = readings.get(main.pid)
            if reading is None or not main.alive:
                self._waits.pop(rank, None)
                continue
            waits = bool(reading.values.get("answer_wait")) and in_step(rank) is not None
            looks = self._waits.setdefault(rank, deque(maxlen=LOOKS))
            looks.append(waits)
            if waits and sum(looks) >= FEW_WAITS and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks
