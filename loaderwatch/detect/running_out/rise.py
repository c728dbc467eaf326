"""The use of a resource that rises from step to step of the training: the basis of every forecast that something runs out.

A step may take much and give it back, as activations are. A run may load its data set before it trains. Neither is a trend.
So only the least use within each stretch of whole steps counts, and nothing before the first batch, or after the last step, does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.detect.measures.statistics import Floats, Growth
from loaderwatch.detect.text import count, duration
from loaderwatch.detect.window import RankWindow, first_at, one_of

Ints = NDArray[np.int64]

STRETCH_NS: Final = 2_000_000_000
"""Least length of a stretch of steps, in ns: two readings of a process lie in it, so one reading at a peak never counts alone."""
PATIENCE_NS: Final = 10_000_000_000
"""How long ago the newest stretch may have ended, in ns, beyond two usual stretches. After that the run no longer trains."""
LOOKS_AHEAD: Final = 39.0
"""How many times as much may be left as has been added, for an alert. At 39, 2.5 % of what was free has been used up. Growth that is
smaller is a remark: caches and queues fill as well, and stop when they are full."""
LOOKS_AHEAD_OF_STREAM: Final = 9.0
"""The same for a process that reads a stream. Streams keep shuffle buffers, which hold gigabytes and take minutes to fill."""


@dataclass(frozen=True)
class Rise:
    """The growth of one quantity over stretches of whole steps; ``steps`` is how many steps they hold."""

    growth: Growth
    steps: int

    def basis(self, whose: str, said: Callable[[float], str]) -> str:
        """Return the sentence that says what a forecast is made of; ``whose`` use it is, and how a value of it is said."""
        rise = self.growth
        return (
            f"The forecast is based on {duration(rise.span_s)} of training, {count(self.steps, 'step')}: the least that {whose} rose"
            f" from {said(rise.first)} to {said(rise.last)}, from step to step."
        )


@dataclass(frozen=True)
class Stretches:
    """Stretches of whole training steps of one rank: ``bounds_ns`` are where each begins and the last one ends, UTC."""

    bounds_ns: Ints
    delivered_ns: Ints  # of every step in them

    def rise(
        self, t_ns: Ints, values: Floats, growth: Callable[[Ints, Floats], Growth | None]
    ) -> Rise | None:
        """Return how the least values of the stretches grow, as ``growth`` judges them; None where they do not."""
        times, least = self._least(t_ns, values)
        found = growth(times, least) if times.size else None
        if found is None:
            return None
        first, last = (first_at(self.delivered_ns, int(times[row])) for row in (0, -1))
        return Rise(found, max(1, last - first))

    def _least(self, t_ns: Ints, values: Floats) -> tuple[Ints, Floats]:
        """Return the time and the value of the least known reading in each stretch that has one."""
        good = np.isfinite(values)
        t_ns, values = t_ns[good], values[good]
        bounds = [first_at(t_ns, int(bound)) for bound in self.bounds_ns]
        rows = [begin + int(values[begin:end].argmin()) for begin, end in pairwise(bounds) if end > begin]
        return t_ns[rows], values[rows]


def stretches(rank: RankWindow, least_ns: int = STRETCH_NS, beyond_ns: int = 0) -> Stretches | None:
    """Return the stretches of steps in a rank's window, each of ``least_ns`` at least; None while the rank does not train.

    The first one begins ``beyond_ns`` before the first batch, and the last one ends so much after the last step: for what is read rarely.
    """
    steps = rank.table("steps")
    training = [loader.loader for loader in rank.process.loaders if loader.role == "train"]
    rows = np.flatnonzero(one_of(steps["loader"], training))
    if not rows.size:
        return None
    waited = np.maximum(
        0, steps["wait_ns"][rows]
    )  # UNKNOWN is negative: a thread of the script's own took the batch
    delivered = np.sort(steps["request_ns"][rows] + waited)
    last = int(rows[-1])
    lasted = [int(steps[name][last]) for name in ("wait_ns", "step_ns", "nested_ns")]
    ended_ns = int(steps["request_ns"][last]) + sum(max(0, value) for value in lasted) + beyond_ns
    bounds = [int(delivered[0]) - beyond_ns]
    while (begin := first_at(delivered, bounds[-1] + least_ns)) < delivered.size:
        bounds.append(int(delivered[begin]))
    if ended_ns - bounds[-1] >= least_ns:
        bounds.append(ended_ns)
    if len(bounds) < 2:
        return None
    usual_ns = float(np.median(np.diff(bounds)))
    if rank.made_ns - bounds[-1] > PATIENCE_NS + 2 * usual_ns:
        return None
    return Stretches(np.array(bounds, dtype=np.int64), delivered)


def is_likely(grown: float, left: float, looks_ahead: float = LOOKS_AHEAD) -> bool:
    """Whether growth has gone on for long enough to expect that it goes on until nothing is left."""
    return math.isfinite(grown) and left <= looks_ahead * grown
