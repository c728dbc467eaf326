"""Means over time with their noise, and whether two means differ by more than noise.

The values of a run are means of equal periods. Values close in time are similar (a slow file, a busy
neighbour), so n values say less than n independent ones. Their number is reduced by the correlation of
neighbours, as for an autoregressive process of first order (Wilks, Statistical Methods in the Atmospheric
Sciences, 5.2.4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.detect.measures.statistics import Floats, known

LEAST_VALUES: Final = 5  # of each run, before noise can be estimated
_T_95: Final = (
    (1, 12.71), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (6, 2.447), (7, 2.365), (8, 2.306),
    (9, 2.262), (10, 2.228), (12, 2.179), (15, 2.131), (20, 2.086), (30, 2.042), (60, 2.0), (120, 1.98),
)  # fmt: skip
"""Two-sided 95 % quantiles of Student's t by degrees of freedom."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean of ``values`` values, its standard error (NaN if they are too few) and degrees of freedom."""

    mean: float
    error: float
    freedom: float
    values: int

    @property
    def half_width(self) -> float:
        """Half the width of the 95 % interval; NaN if there are too few values."""
        return t_95(self.freedom) * self.error


def mean_of(values: Floats) -> Mean | None:
    """Return the mean of the known values, which are in time order; None if there are none."""
    values = known(values)
    if not values.size:
        return None
    average = float(values.mean())
    if values.size < LEAST_VALUES:
        return Mean(average, math.nan, math.nan, values.size)
    worth = max(2.0, values.size * (1 - _alike(values)) / (1 + _alike(values)))
    return Mean(average, float(values.std(ddof=1)) / math.sqrt(worth), worth - 1, values.size)


def difference(a: Mean, b: Mean) -> tuple[float, float]:
    """Return B minus A, and half the width of its 95 % interval (Welch); NaN if one has too few values."""
    error = math.hypot(a.error, b.error)
    if not error > 0:  # NaN, or two runs that never vary
        return b.mean - a.mean, error
    freedom = error**4 / (a.error**4 / a.freedom + b.error**4 / b.freedom)
    return b.mean - a.mean, t_95(freedom) * error


def t_95(freedom: float) -> float:
    """Return the quantile for the next lower tabled number of degrees of freedom, which is conservative."""
    if math.isnan(freedom):
        return math.nan
    return next((quantile for least, quantile in reversed(_T_95) if freedom >= least), _T_95[0][1])


def _alike(values: Floats) -> float:
    """Return the correlation of neighbours, 0 to 0.99; negative values are chance."""
    centred = values - values.mean()
    power = float(np.dot(centred, centred))
    if not power > 0:
        return 0.0
    correlation = float(np.dot(centred[:-1], centred[1:])) / power
    # The estimate is too small by about (1 + 4 r) / n (Kendall 1954), most for the short series here.
    return min(0.99, max(0.0, correlation + (1 + 4 * max(correlation, 0.0)) / values.size))
