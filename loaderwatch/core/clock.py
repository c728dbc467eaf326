"""Monotonic and wall clocks. Durations use the monotonic clock; the wall clock only labels them."""

from __future__ import annotations

import time
from typing import Final

SECOND_NS: Final = 1_000_000_000
END_OF_TIME_NS: Final = 2**62
"""A time later than any other: the year 2116 on a wall clock, and small enough that sums do not overflow."""

monotonic_ns = time.monotonic_ns
wall_ns = time.time_ns


def boot_ns() -> int:
    """Nanoseconds since boot, including suspended time; nobody can set this clock.

    A system without such a clock returns its monotonic clock.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    # macOS: the monotonic clock stops while the host is suspended, the raw one goes on.
    if hasattr(time, "CLOCK_UPTIME_RAW"):
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return time.monotonic_ns()


def slept_ns() -> int:
    """How long this host has been suspended since it booted."""
    return boot_ns() - time.monotonic_ns()


class SteadyClock:
    """A wall clock that does not jump ahead, so setting the system's clock makes no run look too old."""

    def __init__(self) -> None:
        self._began = time.time_ns() - boot_ns()

    def now_ns(self) -> int:
        """Return UTC at this object's creation plus the time since, or the wall clock if that is earlier."""
        return min(time.time_ns(), self._began + boot_ns())


def wall_offset_ns() -> int:
    """Wall clock minus monotonic clock, now, in nanoseconds.

    On Linux, CLOCK_MONOTONIC is one clock for the whole host, so one offset converts the stamps of all its
    processes to UTC. Of a few bracketed readings, the one with the narrowest bracket counts, because a
    preemption only widens a bracket.
    """
    best_width, best_offset = None, 0
    for _ in range(5):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        width = after - before
        if best_width is None or width < best_width:
            best_width, best_offset = width, wall - (before + after) // 2
    return best_offset
