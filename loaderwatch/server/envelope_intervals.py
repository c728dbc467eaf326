"""How often a run's streams send envelopes, and from when on a stream is behind the others."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.wire import ENVELOPE_S

ENVELOPES: Final = ((8192, 4.0), (2048, 2.0), (512, 1.0))
"""Sending interval in s above a number of ranks. Besides its rows, an envelope costs a request and a look."""
MISSED: Final = 2.5
"""Intervals by which a stream is behind after one missed envelope: sends vary, and large commits are slow."""


def envelope_s(world_size: int, *, stands: bool = False) -> float:
    """Return the interval in s at which a run's streams should send; half of it while a rank stands still.

    Envelopes then have few rows, and a standstill is recognized by span ages, which are as old as envelopes.
    """
    seconds = next((seconds for ranks, seconds in ENVELOPES if world_size > ranks), ENVELOPE_S)
    return max(ENVELOPE_S, seconds / 2) if stands else seconds


def behind_s(world_size: int, least_s: float) -> float:
    """Return by how many s a stream with a missed envelope is behind the newest one; at least ``least_s``."""
    return max(least_s, MISSED * envelope_s(world_size))
