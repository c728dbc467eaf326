"""When a stack of a training process is worth a signal: the GPU idles within a step, a few times an hour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.facts import GPU_IDLE, SWING_HIGH_RATIO, SWING_LOW_RATIO
from loaderwatch.streamer.stack_moments.budget import LastStacks, StackBudget

SWING_NS: Final = 10 * SECOND_NS
"""A GPU whose last busy moment is older than this has nothing to do; it does not swing."""


class IdleGpus:
    """Follows the utilization of each rank's GPU."""

    def __init__(self, last: LastStacks) -> None:
        self._busy_ns: dict[int, int] = {}  # by rank: when its GPU was last busy
        self._idle: set[int] = set()
        self._budget = StackBudget(last, GPU_IDLE)

    def due(self, used: Mapping[int, float], in_step: Callable[[int], int | None], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        A stack is taken when the utilization falls. Utilization is a mean over half a second or more, so it
        may still be low when the loop has already gone on.

        Args:
            used: the newest utilization of each rank's GPU, 0 to 1.
            in_step: gives the pid of a rank's training process while it works on a batch.
            now_ns: monotonic.
        """
        ranks = []
        for rank, ratio in used.items():
            was_idle = rank in self._idle
            if ratio >= SWING_LOW_RATIO:
                self._idle.discard(rank)
                if ratio >= SWING_HIGH_RATIO:
                    self._busy_ns[rank] = now_ns
                continue
            self._idle.add(rank)
            swings = now_ns - self._busy_ns.get(rank, now_ns - 2 * SWING_NS) <= SWING_NS
            pid = in_step(rank) if swings and not was_idle else None
            if pid is not None and self._budget.take(rank, [pid], now_ns):
                ranks.append(rank)
        return ranks
