"""When a stack of a training process is worth its signal: while the GPU idles within a step, a few times an hour."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.facts import SWING_HIGH_RATIO, SWING_LOW_RATIO

SWING_NS: Final = 10 * SECOND_NS
"""A GPU that was busy longer ago does not swing: it has nothing to do."""
HOUR_NS: Final = 3600 * SECOND_NS
APART_NS: Final = (0, 5 * SECOND_NS, 300 * SECOND_NS, 600 * SECOND_NS, 900 * SECOND_NS, 1200 * SECOND_NS)
"""How long after the one before a stack is taken at the earliest, by how many there were within the hour. It is a handful, and
spread, so that a swing that begins later gets one, too."""


class IdleGpus:
    """Follows the utilization of each rank's GPU."""

    def __init__(self) -> None:
        self._busy_ns: dict[int, int] = {}  # by rank: when its GPU was last busy
        self._idle: set[int] = set()
        self._asked_ns: dict[int, list[int]] = {}  # by rank: when, within the last hour

    def due(self, used: Mapping[int, float], in_step: Callable[[int], bool], now_ns: int) -> list[int]:
        """Return the ranks of which a stack should be taken now, and count it as taken.

        It is taken as the utilization falls: that is a mean over half a second and more, so that later in the low phase it
        may still be low when the loop has gone on.

        Args:
            used: the newest utilization of each rank's GPU, 0 to 1.
            in_step: whether a rank has its batch and works with it.
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
            if not was_idle and self._swings(rank, now_ns) and in_step(rank):
                self._asked_ns[rank].append(now_ns)
                ranks.append(rank)
        return ranks

    def _swings(self, rank: int, now_ns: int) -> bool:
        if now_ns - self._busy_ns.get(rank, now_ns - 2 * SWING_NS) > SWING_NS:
            return False
        asked = [at_ns for at_ns in self._asked_ns.get(rank, ()) if now_ns - at_ns < HOUR_NS]
        self._asked_ns[rank] = asked
        return not asked or (len(asked) < len(APART_NS) and now_ns - asked[-1] >= APART_NS[len(asked)])
