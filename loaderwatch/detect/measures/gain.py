"""What a change can give at most. Pure arithmetic; every number is seconds per iteration unless it says otherwise.

A finding's ``gain_ceiling_ratio`` is ``1 - after / now``: ``now`` is what an iteration takes at present, waits and epoch
boundaries included; ``after`` is the least it can take once the advice is done. It is a bound, not a forecast: 0.6 says
that 40 % of the time stays whatever happens. It holds as long as steps, samples and the machine's neighbours stay as they
are, and is never below what the advice gives. ``after`` is the largest of what cannot go away:

- the step, free of data wait (of the fight for CPUs, too, where there is one: its quickest tenth);
- the fetch over the workers that the advice asks for (S01, S02);
- what CPU time the run takes now over the usable CPUs: reading in workers costs as much of it as before (S01, S02);
- the reading threads' CPU time over the CPUs, where they do nothing else with it (S03, S04, S05). Not where threads spin
  (S06): a thread that waits for another by spinning burns CPU that looks like work;
- for waits that are rare, the iteration without those (S20, S21); for epoch boundaries, a whole epoch without what the
  advice saves of its boundary (S28 to S33), or the loop's own work between two iterators (S32).
"""

from __future__ import annotations

import math
from typing import Final

from loaderwatch.core.threshold import threshold

MOST_PREFETCH: Final = threshold(
    32, "batches", "chosen: a larger prefetch_factor costs more memory than it is worth"
)


def iteration_with(fetch_s: float, workers: int, step_s: float) -> float:
    """Return the seconds per iteration that so many workers can sustain: the slower of loading and computing.

    Loading and computing overlap, so removing a wait gives back at most what the slower of the two leaves
    over.
    """
    return max(step_s, fetch_s / max(1, workers))


def gain_ratio(iteration_s: float, after_s: float) -> float | None:
    """Return the share (0 to 1) of the time that comes back while a finding lasts if ``after_s`` replaces ``iteration_s``.

    None when either of the two is not known.
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
    """Return the prefetch_factor whose ready batches outlast a fetch of ``tail_s``; 2 if not known."""
    if not (step_s > 0 and workers > 0 and math.isfinite(tail_s)):
        return 2
    return math.ceil(tail_s / (step_s * workers)) + 1
