"""When a stack of a training process is worth its signal: in a step, where its steps take twice as long as they once did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.stack_moments.budget import OF_ONE_APART_NS, StackBudget

GROWN_RATIO: Final = 1.5
"""Times its least usual step that a rank's usual step takes."""
LEAST_NS: Final = 10_000_000
"""A shorter step is over before a stack of it is taken."""


class GrowingSteps:
    """Follows the usual step of each rank."""

    def __init__(self) -> None:
        self._least_ns: dict[int, float] = {}  # by rank
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
            step_ns = usual_ns.get(rank, (0.0, 0.0))[1]
            span = main.ring.span() if main.alive else None
            if not step_ns or span is None:
                continue
            least_ns = self._least_ns[rank] = min(step_ns, self._least_ns.get(rank, step_ns))
            grown = step_ns >= max(LEAST_NS, GROWN_RATIO * least_ns)
            # In a phase of its own nothing of the script's grows: the model and the optimizer have other words.
            if grown and span.phase is Phase.STEP and self._budget.take(rank, now_ns):
                found.append(rank)
        return found
