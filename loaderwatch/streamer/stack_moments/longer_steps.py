"""When a stack of a training process is worth its signal: in its model or its optimizer, once steps take longer than they did.

Where no model is watched, that is anywhere in a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.core.facts import LONGER_STEP
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.stack_moments.budget import (
    OF_A_PART_APART_NS,
    LastStacks,
    StackBudget,
    steps_long,
)

LONGER: Final = 2.0
"""Times the shortest usual step so far, from which on a stack is taken: what grows has by then the larger part of the step."""
LEAST_STEP_NS: Final = 5_000_000
"""A step that is worth it; of shorter ones the usual length is no more than what else the machine does."""
PARTS: Final = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


class LongerSteps:
    """Follows how long the steps of each rank take, and takes stacks where a look finds the loop in one of these."""

    def __init__(self, last: LastStacks) -> None:
        self._shortest_ns: dict[int, float] = {}  # usual step so far, by pid
        self._budget = StackBudget(last, LONGER_STEP, OF_A_PART_APART_NS)

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
            if not main.alive or main.info is None or main.info.cuda or step_ns < LEAST_STEP_NS:
                continue
            shortest_ns = self._shortest_ns[main.pid] = min(step_ns, self._shortest_ns.get(main.pid, step_ns))
            span = main.ring.span()
            parts = PARTS if main.info.has_model else (*PARTS, Phase.STEP)
            # A step that is long by itself has a stack of its own: what makes it long is not what grows.
            inside = span is not None and span.phase in parts and not steps_long(main, step_ns, now_ns)
            if inside and step_ns >= LONGER * shortest_ns and self._budget.take(rank, [main.pid], now_ns):
                found.append(rank)
        return found
