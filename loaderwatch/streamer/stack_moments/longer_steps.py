"""When to take a training process's stack: in its model or optimizer, once steps take longer than before.

If no model is watched, the stack may be taken anywhere in a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.core.facts import LONGER_STEP
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.stack_moments.budget import OF_A_PART_APART_NS, LastStacks, StackBudget, steps_long

LONGER: Final = 2.0
"""Times the shortest usual step so far. From here on, the part that grew is the larger part of the step."""
LEAST_STEP_NS: Final = 5_000_000
"""The shortest usual step that is followed. Shorter steps vary as much by other work of the machine."""
PARTS: Final = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


class LongerSteps:
    """Follows how long each rank's steps take, and takes stacks in the parts that may have grown."""

    def __init__(self, last: LastStacks) -> None:
        self._shortest_ns: dict[int, float] = {}  # shortest usual step so far, by pid
        self._budget = StackBudget(last, LONGER_STEP, OF_A_PART_APART_NS)

    def due(self, roster: Roster, usual_ns: Mapping[int, tuple[float, float]], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            usual_ns: the usual (wait, step) of each rank.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            step_ns = usual_ns.get(rank, (0.0, 0.0))[1]
            if not main.alive or main.info is None or main.info.cuda or step_ns < LEAST_STEP_NS:
                continue
            shortest_ns = self._shortest_ns[main.pid] = min(step_ns, self._shortest_ns.get(main.pid, step_ns))
            span = main.ring.span()
            parts = PARTS if main.info.has_model else (*PARTS, Phase.STEP)
            # A single long step gets its own stack: its cause is not the one that makes all steps longer.
            inside = span is not None and span.phase in parts and not steps_long(main, step_ns, now_ns)
            if inside and step_ns >= LONGER * shortest_ns and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks
