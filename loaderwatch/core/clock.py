"""Monotonic and wall clocks. Durations use the monotonic clock; the wall clock only labels them for people."""

from __future__ import annotations

import time
from typing import Final

SECOND_NS: Final = 1_000_000_000
END_OF_TIME_NS: Final = 2**62
"""A time later than any other: the year 2116 on a wall clock, and small enough that sums do not overflow."""

monotonic_ns = time.monotonic_ns
wall_ns = time.time_ns


def boot_ns() -> int:
    """Nanoseconds since boot, including the time in which this host was suspended; nobody can set this clock.

    A system that has no such clock answers with its monotonic one.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    if hasattr(
        time, "CLOCK_UPTIME_RAW"
    ):  # macOS: its monotonic clock stops during a suspend, its raw one goes on
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    return time.monotonic_ns()


def slept_ns() -> int:
    """How long this host has been suspended since it was started."""
    return boot_ns() - time.monotonic_ns()


class SteadyClock:
    """A wall clock that does not jump ahead: nobody makes a run look too old by setting the system's clock."""

    def __init__(self) -> None:
        self._began = time.time_ns() - boot_ns()

    def now_ns(self) -> int:
        """Return UTC when this clock was made plus the time since then, or the wall clock if that is earlier."""
        return min(time.time_ns(), self._began + boot_ns())


def wall_offset_ns() -> int:
    """Wall clock minus monotonic clock, now, in nanoseconds.

    On Linux CLOCK_MONOTONIC is one clock for the whole host, so one offset turns the stamps of every process on it
    into UTC. The smallest of a few bracketed readings is kept, because a preemption between the two reads only ever
    widens the bracket.
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
