"""When a stack of a training process without a loader is worth its signal: between two steps, where much time goes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.stack_moments.budget import OF_ONE_APART_NS, StackBudget

WAITS_RATIO: Final = 0.15
"""Share of its time that the loop spends between two steps."""


class StepLoops:
    """Follows the loops that have no loader."""

    def __init__(self) -> None:
        self._budget = StackBudget(OF_ONE_APART_NS)

    def due(self, roster: Roster, usual_ns: Mapping[int, tuple[float, float]], now_ns: int) -> list[int]:
        """Return the ranks of which a stack should be taken now, and count it as taken.

        Args:
            roster: the processes of the run on this host.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        found = []
        for rank, main in roster.newest_by_rank().items():
            if main.info is None or not main.info.trains_without_loader:
                continue
            span = main.ring.span() if main.alive else None
            wait_ns, step_ns = usual_ns.get(rank, (0.0, 0.0))
            between = span is not None and span.phase is Phase.OUTSIDE
            if between and wait_ns > WAITS_RATIO * (wait_ns + step_ns) and self._budget.take(rank, now_ns):
                found.append(rank)
        return found
