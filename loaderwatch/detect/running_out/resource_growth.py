"""The use of a resource that rises from step to step: the basis of every forecast that something runs out.

A step may take much and give it back, for example for activations. A run may load its data before it trains.
Neither is a trend. So only the smallest use in each stretch of whole steps counts, and only between the first
batch and the last step.
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
    2_000_000_000, "ns", "the shortest stretch holds two readings of a process, so no peak counts alone"
)
PATIENCE_NS: Final = threshold(
    10_000_000_000, "ns", "chosen: beyond two usual stretches; with an older newest one, training has stopped"
)
WARNING_ETA_S: Final = threshold(
    1800.0, "s", "chosen: training takes hours, and a cache stops growing earlier; sooner is worth an alert"
)
CRITICAL_ETA_S: Final = threshold(300.0, "s", "chosen: five minutes leave hardly any time to act")
LOOKS_AHEAD: Final = threshold(
    39.0, "factor", "chosen: 2.5 % of the free part must be used up; caches and queues that fill grow by less"
)
LOOKS_AHEAD_OF_STREAM: Final = threshold(
    9.0, "factor", "chosen: 10 % must be used up; shuffle buffers hold gigabytes and fill for minutes"
)
CLEAR_OF_NOISE: Final = threshold(
    4.0, "standard deviations", "chosen: of single stretches from a straight line; the growth must exceed it"
)
FEW_STRETCHES: Final = threshold(
    6, "stretches", "with four long steps, late first readings on a busy machine looked like growth"
)
CLEAR_OF_FEW: Final = threshold(
    12.0, "standard deviations", "noise alone makes so straight a line of four stretches once in eighty"
)
LEAST_OF_FEW_S: Final = threshold(
    WINDOW_S / 2, "s", "chosen: only for steps so long that the window never holds many more stretches"
)


@dataclass(frozen=True)
class Rise:
    """The growth of one quantity over stretches of whole steps; ``steps`` is the number of steps in them."""

    growth: Growth
    steps: int

    @property
    def basis(self) -> dict[str, Param]:
        """Return the parameters of the sentence that names the basis of a forecast."""
        return {"seen_s": self.growth.span_s, "steps": self.steps}


@dataclass(frozen=True)
class Stretches:
    """Stretches of whole training steps of one rank.

    ``bounds_ns`` are the begins of all stretches and the end of the last one, UTC. ``delivered_ns`` are the
    deliveries of all batches in them.
    """

    bounds_ns: Ints
    delivered_ns: Ints

    def rise(
        self, t_ns: Ints, values: Floats, judge: Callable[[Ints, Floats], Growth | None], few: int = 0
    ) -> Rise | None:
        """Return how the smallest values of the stretches grow, as ``judge`` finds; None if they do not.

        Fewer than ``few`` stretches must grow by more than the range of readings within any stretch, because
        readings that come too late raise the smallest value by at most that.
        """
        times, least, apart = self._least(t_ns, values)
        trend = judge(times, least) if times.size else None
        if trend is None or (times.size < few and trend.grown <= apart.max()):
            return None
        first, last = (first_at(self.delivered_ns, int(times[row])) for row in (0, -1))
        return Rise(trend, max(1, last - first))

    def _least(self, t_ns: Ints, values: Floats) -> tuple[Ints, Floats, Floats]:
        """Return time and value of the smallest reading per stretch, and the largest one's distance to it."""
        good = np.isfinite(values)
        t_ns, values = t_ns[good], values[good]
        bounds = [first_at(t_ns, int(bound)) for bound in self.bounds_ns]
        read = [(begin, end) for begin, end in pairwise(bounds) if end > begin]
        rows = [begin + int(values[begin:end].argmin()) for begin, end in read]
        most = np.array([values[begin:end].max() for begin, end in read], dtype=np.float64)
        return t_ns[rows], values[rows], most - values[rows]


def stretches(rank: RankWindow, least_ns: int = STRETCH_NS, beyond_ns: int = 0) -> Stretches | None:
    """Return a rank's stretches of steps, each at least ``least_ns`` long; None if it does not train.

    For quantities that are read rarely, the first one begins ``beyond_ns`` before the first batch, and the
    last one ends as long after the last step.
    """
    steps = rank.table("steps")
    training = [loader.loader for loader in rank.process.loaders if loader.role == "train"]
    rows = np.flatnonzero(one_of(steps["loader"], training))
    if not rows.size:
        return None
    # UNKNOWN is negative: the script's own thread took the batch.
    waited = np.maximum(0, steps["wait_ns"][rows])
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
    """Return a judge of stretches: it finds steady growth over ``least_s`` seconds that exceeds the noise."""

    def judge(t_ns: Ints, values: Floats) -> Growth | None:
        few = values.size < FEW_STRETCHES
        line = growth(t_ns, values, max(least_s, LEAST_OF_FEW_S) if few else least_s)
        if line is None:
            return None
        off = values - line.per_s * (t_ns - t_ns[0]) / 1e9
        clear = CLEAR_OF_FEW if few else CLEAR_OF_NOISE
        return line if line.per_s * line.span_s >= clear * float(off.std()) else None

    return judge


def is_likely(grown: float, left: float, looks_ahead: float = LOOKS_AHEAD) -> bool:
    """Whether the growth is long enough to expect that it continues until nothing is left."""
    return math.isfinite(grown) and left <= looks_ahead * grown
