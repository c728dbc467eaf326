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

from loaderwatch.core.answers import Param
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.statistics import Floats, Growth, growth
from loaderwatch.detect.window import WINDOW_S, RankWindow, first_at, one_of

Ints = NDArray[np.int64]

STRETCH_NS: Final = threshold(
    2_000_000_000,
    "ns",
    "two readings of a process lie in the shortest stretch, so that one reading at a peak never counts alone",
)
PATIENCE_NS: Final = threshold(
    10_000_000_000,
    "ns",
    "chosen: the age of the newest stretch beyond two usual ones; after that the run no longer trains",
)
WARNING_ETA_S: Final = threshold(
    1800.0, "s", "chosen: training takes hours, and a cache levels off before; sooner is worth an alert"
)
CRITICAL_ETA_S: Final = threshold(
    300.0, "s", "chosen: what is used up within five minutes leaves hardly time"
)
LOOKS_AHEAD: Final = threshold(
    39.0,
    "factor",
    "chosen: 2.5 % of what was free must have been used "
    "up; smaller growth may be caches and queues that fill",
)
LOOKS_AHEAD_OF_STREAM: Final = threshold(
    9.0,
    "factor",
    "chosen: 10 % must have been used up; shuffle buffers of streams hold gigabytes and take minutes to fill",
)
CLEAR_OF_NOISE: Final = threshold(
    4.0,
    "standard deviations",
    "chosen: of single stretches from a straight line, by which a quantity must have grown",
)
FEW_STRETCHES: Final = threshold(
    6,
    "stretches",
    "four long steps in a row looked like growth on a busy "
    "machine, where the first reading of a step came late",
)
CLEAR_OF_FEW: Final = threshold(
    12.0,
    "standard deviations",
    "noise alone makes so straight a line of four stretches in about one case of eighty",
)
LEAST_OF_FEW_S: Final = threshold(
    WINDOW_S / 2, "s", "chosen: only steps so long that the window never holds many more stretches"
)


@dataclass(frozen=True)
class Rise:
    """The growth of one quantity over stretches of whole steps; ``steps`` is how many steps they hold."""

    growth: Growth
    steps: int

    @property
    def basis(self) -> dict[str, Param]:
        """Return the parameters of the sentence that says what a forecast is made of."""
        return {"seen_s": self.growth.span_s, "steps": self.steps}


@dataclass(frozen=True)
class Stretches:
    """Stretches of whole training steps of one rank: ``bounds_ns`` are where each begins and the last one ends, UTC."""

    bounds_ns: Ints
    delivered_ns: Ints  # of every step in them

    def rise(
        self, t_ns: Ints, values: Floats, judge: Callable[[Ints, Floats], Growth | None], few: int = 0
    ) -> Rise | None:
        """Return how the least values of the stretches grow, as ``judge`` finds; None where they do not.

        Of fewer than ``few`` stretches they must grow by more than the readings of any stretch lie apart: readings that come too late
        raise a least value by no more.
        """
        times, least, apart = self._least(t_ns, values)
        found = judge(times, least) if times.size else None
        if found is None or (times.size < few and found.grown <= apart.max()):
            return None
        first, last = (first_at(self.delivered_ns, int(times[row])) for row in (0, -1))
        return Rise(found, max(1, last - first))

    def _least(self, t_ns: Ints, values: Floats) -> tuple[Ints, Floats, Floats]:
        """Return time and value of the least known reading in each stretch that has one, and how far the greatest lies above it."""
        good = np.isfinite(values)
        t_ns, values = t_ns[good], values[good]
        bounds = [first_at(t_ns, int(bound)) for bound in self.bounds_ns]
        read = [(begin, end) for begin, end in pairwise(bounds) if end > begin]
        rows = [begin + int(values[begin:end].argmin()) for begin, end in read]
        most = np.array([values[begin:end].max() for begin, end in read], dtype=np.float64)
        return t_ns[rows], values[rows], most - values[rows]


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


def clear_growth(least_s: float) -> Callable[[Ints, Floats], Growth | None]:
    """Return what judges stretches: steady growth over ``least_s`` seconds at least, which is clear of its noise."""

    def judge(t_ns: Ints, values: Floats) -> Growth | None:
        few = values.size < FEW_STRETCHES
        found = growth(t_ns, values, max(least_s, LEAST_OF_FEW_S) if few else least_s)
        if found is None:
            return None
        off = values - found.per_s * (t_ns - t_ns[0]) / 1e9
        clear = CLEAR_OF_FEW if few else CLEAR_OF_NOISE
        return found if found.per_s * found.span_s >= clear * float(off.std()) else None

    return judge


def is_likely(grown: float, left: float, looks_ahead: float = LOOKS_AHEAD) -> bool:
    """Whether growth has gone on for long enough to expect that it goes on until nothing is left."""
    return math.isfinite(grown) and left <= looks_ahead * grown
