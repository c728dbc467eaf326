"""When a stack of a training process without a loader is worth a signal: much time passes between two steps.

Either every gap is long, or a few are. A long gap gets one stack, so that other gaps get theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.core.facts import BETWEEN_STEPS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.stack_moments.budget import LONG_WAIT_NS, OF_ONE_APART_NS, LastStacks, StackBudget

WAITS_RATIO: Final = 0.15
"""Share of its time that the loop spends between two steps."""


class StepLoops:
    """Follows the loops that have no loader."""

    def __init__(self, last: LastStacks) -> None:
        self._budget = StackBudget(last, BETWEEN_STEPS, OF_ONE_APART_NS)
        self._asked_ns: dict[int, int] = {}  # by rank: start of the gap of the last stack

    def due(self, roster: Roster, usual_ns: Mapping[int, tuple[float, float]], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            if main.info is None or not main.info.trains_without_loader:
                continue
            span = main.ring.span() if main.alive else None
            wait_ns, step_ns = usual_ns.get(rank, (0.0, 0.0))
            if span is None or span.phase is not Phase.OUTSIDE:
                continue
            often = wait_ns > WAITS_RATIO * (wait_ns + step_ns)
            long = now_ns - span.since_ns > max(LONG_WAIT_NS, wait_ns + step_ns)
            is_new = self._asked_ns.get(rank) != span.since_ns
            if (often or (long and is_new)) and self._budget.take(rank, [main.pid], now_ns):
                self._asked_ns[rank] = span.since_ns
                due_ranks.append(rank)
        return due_ranks
