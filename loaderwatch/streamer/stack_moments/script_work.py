"""When to take a training process's stack: the script's own part of a step takes much of the time."""

from __future__ import annotations

from collections import deque
from typing import Final

from loaderwatch.core.facts import SCRIPT_WORK
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.stack_moments.budget import OF_A_PART_APART_NS, LastStacks, StackBudget

LOOKS: Final = 8
"""Looks considered, one a second."""
OWN_RATIO: Final = 0.3
"""Share of the looks that found the loop in a step, but neither in the model nor in the optimizer."""


class ScriptWork:
    """Follows what each rank's loop is doing, if the model and the optimizer are timed."""

    def __init__(self, last: LastStacks) -> None:
        self._looks: dict[int, deque[bool]] = {}  # by rank
        self._budget = StackBudget(last, SCRIPT_WORK, OF_A_PART_APART_NS)

    def due(self, roster: Roster, now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            span = main.ring.span() if main.alive else None
            if span is None or main.info is None or not (main.info.has_model and main.info.has_optimizer):
                self._looks.pop(rank, None)
                continue
            looks = self._looks.setdefault(rank, deque(maxlen=LOOKS))
            evaluates = any(x.loader == span.loader and x.role != "train" for x in main.info.loaders)
            looks.append(span.phase is Phase.STEP and not evaluates)
            often = len(looks) == LOOKS and sum(looks) >= OWN_RATIO * LOOKS
            if looks[-1] and often and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks
