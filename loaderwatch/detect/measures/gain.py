"""How much a change can gain at most. Pure arithmetic, in seconds per iteration unless stated otherwise.

A finding's ``gain_ceiling_ratio`` is ``1 - after / now``. ``now`` is the present time of an iteration,
including waits and epoch boundaries. ``after`` is the least time once the advice is followed. The ratio is a
bound, not a forecast: 0.6 says that 40 % of the time stays in any case. The advice never gains more, as long
as steps, samples and other programs on the machine stay the same. What cannot go away limits ``after``. The
largest of these times counts:

* The step without data wait; if there is a fight for CPUs, its quickest tenth.
* The fetch divided by the number of workers that the advice asks for (S01, S02).
* The run's present CPU time divided by the usable CPUs: reading in workers costs as much of it as before
  (S01, S02).
* The reading threads' CPU time divided by the CPUs, if the threads only read (S03, S04, S05). Not if threads
  spin (S06): a thread that waits by spinning uses CPU time that looks like work.
* For rare waits, the iteration without them (S20, S21).
* For epoch boundaries, a whole epoch without the time that the advice saves at its boundary (S28 to S33), or
  the loop's own work between two iterators (S32).
"""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.core.threshold import threshold

MOST_PREFETCH: Final = threshold(32, "batches", "chosen: a larger prefetch_factor is not worth its memory")


def iteration_with(fetch_s: float, workers: int, step_s: float) -> float:
    """Return the seconds per iteration that so many workers can sustain: the slower of loading and computing.

    Loading and computing overlap, so the slower of the two bounds the gain.
    """
    return max(step_s, fetch_s / max(1, workers))


def gain_ratio(iteration_s: float, after_s: float) -> float | None:
    """Return the share (0 to 1) of the time that is saved if ``after_s`` replaces ``iteration_s``.

    None if either is unknown.
    """
    if not (iteration_s > 0 and math.isfinite(after_s)):
        return None
    return min(1.0, max(0.0, 1 - after_s / iteration_s))


def workers_needed(fetch_s: float, step_s: float, most: int = 64) -> int:
    """Return how many workers keep up with the step: ``ceil(fetch / step)``, 1 to ``most``."""
    if not (fetch_s > 0 and step_s > 0):
        return 1
    return max(1, min(most, math.ceil(fetch_s / step_s - 0.02)))


def prefetch_needed(tail_s: float, step_s: float, workers: int) -> int:
    """Return the prefetch_factor whose ready batches outlast a fetch of ``tail_s``; 2 if unknown."""
    if not (step_s > 0 and workers > 0 and math.isfinite(tail_s)):
        return 2
    return math.ceil(tail_s / (step_s * workers)) + 1
