"""How often the streams of a run send envelopes, and from when on one of them is behind the others."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.wire import ENVELOPE_S

ENVELOPES: Final = ((8192, 4.0), (2048, 2.0), (512, 1.0))
"""For runs of more ranks than the first number, how often their streams are to send an envelope, in s. Beside its rows an envelope costs
a request, its spans and a look at it."""
MISSED: Final = 2.5
"""How many intervals a stream is behind that has missed one: it sends in its own turn, and a commit of a large run takes long."""


def envelope_s(world_size: int, *, stands: bool = False) -> float:
    """Return how often the streams of a run should send an envelope, in s: twice as often while a rank stands.

    Envelopes have few rows then, and the age of each rank's span, by which a standstill is told, is as old as they are.
    """
    seconds = next((seconds for ranks, seconds in ENVELOPES if world_size > ranks), ENVELOPE_S)
    return max(ENVELOPE_S, seconds / 2) if stands else seconds


def behind_s(world_size: int, least_s: float) -> float:
    """Return how far a stream of a run is behind the newest one, in s, that has missed an envelope; at least ``least_s``."""
    return max(least_s, MISSED * envelope_s(world_size))
