"""Clocks. Durations use the monotonic clock; the wall clock only labels them for people."""

from __future__ import annotations

import time

monotonic_ns = time.monotonic_ns
wall_ns = time.time_ns


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
