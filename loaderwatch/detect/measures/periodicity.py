"""Periods in a series of waits."""

from __future__ import annotations

import math

import numpy as np

from loaderwatch.detect.measures.statistics import Floats

MIN_PERIODS = 3
MIN_CORRELATION = 0.35


def autocorrelation(values: Floats, lag: int) -> float:
    """Correlation of the series with itself ``lag`` places later, -1 to 1.

    NaN when the series does not vary or is shorter than two lags. Values are clipped at their 95th percentile first:
    one huge wait would otherwise decide alone.
    """
    if lag < 1 or values.size < 2 * lag or values.size < 4:
        return math.nan
    clipped = np.minimum(values, np.quantile(values, 0.95))
    centred = clipped - clipped.mean()
    power = float(np.dot(centred, centred))
    if power <= 1e-18 * values.size:
        return math.nan
    # Scaled by the number of pairs, so that long lags are not punished for having fewer.
    pairs = values.size - lag
    return float(np.dot(centred[:-lag], centred[lag:])) / power * values.size / pairs


def comb_period(waits: Floats, workers: int) -> int | None:
    """The period of a wait comb that fits ``workers``: they finish together, then all are busy again.

    With round-robin dispatch N workers that are too slow deliver N batches at once, so every N-th wait is long
    (pytorch#19836). Returns N when the series repeats at lag N and not already at a shorter lag; None otherwise.
    """
    if workers < 2 or waits.size < MIN_PERIODS * workers:
        return None
    at_workers = autocorrelation(waits, workers)
    if not at_workers >= MIN_CORRELATION:
        return None
    shorter = [autocorrelation(waits, lag) for lag in range(1, workers) if workers % lag == 0]
    if any(value >= at_workers for value in shorter if math.isfinite(value)):
        return None
    return workers
