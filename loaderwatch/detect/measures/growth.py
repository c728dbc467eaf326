"""What grows until it is used up, as a straight line: the arithmetic of S24 and S40."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loaderwatch.detect.measures.statistics import Floats

FEW = 4  # readings
STEADY_RATIO = 0.4  # the slope of each half against that of the whole: what levels off is no leak


@dataclass(frozen=True, slots=True)
class Growth:
    """A quantity that has grown steadily."""

    per_s: float
    first: float
    last: float
    span_s: float

    @property
    def grown(self) -> float:
        """By how much."""
        return self.last - self.first

    def eta_s(self, room: float) -> float:
        """Seconds until ``room`` more of it is used."""
        return max(0.0, room) / self.per_s


def growth(t_ns: NDArray[np.int64], values: Floats, least_s: float) -> Growth | None:
    """The steady growth of a series over at least ``least_s`` seconds; None when it does not grow, or levels off."""
    good = np.isfinite(values)
    t_ns, values = t_ns[good], values[good]
    if values.size < FEW:
        return None
    t_s = (t_ns - t_ns[0]) / 1e9
    span_s = float(t_s[-1])
    if span_s < least_s or not values[-1] > values[0]:
        return None
    whole = _slope(t_s, values)
    half = t_s <= span_s / 2
    if half.sum() < 2 or (~half).sum() < 2:
        return None
    if min(_slope(t_s[half], values[half]), _slope(t_s[~half], values[~half])) < STEADY_RATIO * whole:
        return None
    return Growth(whole, float(values[0]), float(values[-1]), span_s) if whole > 0 else None


def _slope(t_s: Floats, values: Floats) -> float:
    centred = t_s - t_s.mean()
    power = float(np.dot(centred, centred))
    return float(np.dot(centred, values - values.mean())) / power if power > 0 else 0.0
