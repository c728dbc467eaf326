"""Statistics that one outlier or one unknown value does not spoil."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def known(values: Floats) -> Floats:
    """The values that are numbers."""
    result: Floats = values[np.isfinite(values)]
    return result


def mean(values: Floats) -> float:
    """Mean of the known values; NaN if there are none."""
    values = known(values)
    return float(values.mean()) if values.size else math.nan


def median(values: Floats) -> float:
    """Median of the known values; NaN if there are none."""
    values = known(values)
    return float(np.median(values)) if values.size else math.nan


def quantile(values: Floats, q: float) -> float:
    """Quantile of the known values; NaN if there are none."""
    values = known(values)
    return float(np.quantile(values, q)) if values.size else math.nan


def high(values: Floats, q: float) -> float:
    """Quantile that is one of the known values, rounded down: a single outlier among few never decides."""
    values = known(values)
    return float(np.quantile(values, q, method="lower")) if values.size else math.nan


def trend(values: Floats) -> float:
    """Spearman's rank correlation of the known values with their order: -1 for what falls all the time, 1 for what rises.

    Equal values count as rising: nothing is taken to fall that stands still.
    """
    values = known(values)
    if values.size < 2:
        return 0.0
    order = np.argsort(values, kind="stable")
    ranks = np.empty(values.size)
    ranks[order] = np.arange(values.size)
    return float(np.corrcoef(ranks, np.arange(values.size))[0, 1])


def total(values: Floats) -> float:
    """Sum of the known values."""
    return float(known(values).sum())


def ratio(part: float, whole: float) -> float:
    """part / whole; NaN where there is no whole."""
    return part / whole if whole > 0 else math.nan
