"""Statistics that tolerate outliers and unknown values, periods in a series of waits, and steady growth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.threshold import threshold

Floats = NDArray[np.float64]
MIN_PERIODS: Final = threshold(3, "periods", "chosen: a comb of waits must repeat so often")
MIN_CORRELATION: Final = threshold(
    0.35, "ratio", "chosen: a comb of waits must correlate with itself by so much, one period later"
)
FEW_FOR_GROWTH: Final = threshold(4, "readings", "chosen: each half of a series needs two for a slope")
FEW_FOR_DRIFT: Final = threshold(
    16, "values", "in so many values noise alone grows by CLEAR_DRIFT_FACTOR in a few cases in a million"
)
CLEAR_DRIFT_FACTOR: Final = threshold(
    6.0, "factor", "times the noise: noise alone grows by as much in a few of a million series of 16"
)
MOST_MEASURABLE: Final = threshold(
    1e100, "units", "chosen: larger values are malicious, and their sums and squares would overflow"
)
TICKS: Final = threshold(
    8, "moments", "chosen: in a row, taken together to distinguish a clock from pauses of equal length"
)
CLIPPED_SPREADS: Final = threshold(
    4.0, "spreads", "chosen: a pause that is further from the median is clipped to this distance"
)
FEW_FAR: Final = threshold(
    8, "pauses", "chosen: the third test of `by_a_clock` needs so many pauses beyond CLIPPED_SPREADS"
)
MADE_UP: Final = threshold(
    0.7, "factor", "chosen: a clock makes up for late ticks, so far pauses nearly cancel; chance gives 1.6"
)
MANY_TICKS: Final = threshold(
    60,
    "moments",
    "simulated: with 60, 97 % of clocks are found; with 40, 99 % of clocks without late ticks, and 4 % of "
    "random pauses",
)
CLIPPED_RATIO: Final = threshold(
    0.53,
    "ratio",
    "simulated, for clipped sums: with 60, 88 and 150 moments 97, 99 and 99.9 % of clocks are found; "
    "random pauses 5, 1 and 0.2 %",
)
TICKS_RATIO: Final = threshold(
    0.55,
    "ratio",
    "simulated with CLIPPED_RATIO, for medians: of the spread by chance; a clock's sums spread less",
)
NORMAL_95: Final = threshold(
    1.959964, "factor", "computed: the two-sided 95 % quantile of the normal distribution, in deviations"
)
STEADY_RATIO: Final = threshold(
    0.4, "ratio", "chosen: each half's slope against that of the whole; growth that levels off is no leak"
)
STEADY_RISE: Final = threshold(
    0.9, "rank correlation", "chosen: of values with their order; a jump between two levels has as much"
)


def known(values: Floats) -> Floats:
    """Return the known values: numbers that can have been measured."""
    result: Floats = values[np.abs(values) < MOST_MEASURABLE]
    return result


def mean(values: Floats) -> float:
    """Return the mean of the known values; NaN if there are none."""
    values = known(values)
    return float(values.mean()) if values.size else math.nan


def last(values: Floats) -> float:
    """Return the last of the known values; NaN if there are none."""
    values = known(values)
    return float(values[-1]) if values.size else math.nan


def median(values: Floats) -> float:
    """Return the median of the known values; NaN if there are none."""
    values = known(values)
    return float(np.median(values)) if values.size else math.nan


def spread(values: Floats) -> float:
    """Return the median distance of the known values from their median; NaN if there are none."""
    values = known(values)
    return median(np.abs(values - median(values)))


def by_a_clock(ticks_s: Floats) -> bool:
    """Return whether the moments follow a clock, which makes up for a late tick by an early next one.

    Sums of random pauses spread with the root of their number, those of a clock do not. Three tests check it:

    * Sums of clipped pauses need few moments, and one long pause does not count in them.
    * Medians need more moments. They miss a clock that starts late, and a late tick that is made up for.
    * The running sum of far pauses finds a source that is late for many ticks and then catches up in a few.

    Args:
        ticks_s: At least 40 moments in seconds, in order.
    """
    gaps_s = np.diff(ticks_s)
    most_s = CLIPPED_SPREADS * spread(gaps_s)
    off_s = gaps_s - median(gaps_s)
    clipped_s = np.clip(off_s, -most_s, most_s)
    sums_s = np.convolve(clipped_s, np.ones(TICKS), "valid")
    if sums_s.std() < CLIPPED_RATIO * math.sqrt(TICKS) * clipped_s.std():
        return True
    far_s = off_s[np.abs(off_s) > most_s]
    behind_s = np.concatenate(([0.0], np.cumsum(far_s)))
    if far_s.size >= FEW_FAR and np.ptp(behind_s) <= MADE_UP * math.sqrt(total(far_s**2)):
        return True
    together_s = ticks_s[TICKS:] - ticks_s[:-TICKS]
    return ticks_s.size >= MANY_TICKS and spread(together_s) < TICKS_RATIO * math.sqrt(TICKS) * spread(gaps_s)


def quantile(values: Floats, q: float) -> float:
    """Return a quantile (``q`` from 0 to 1) of the known values; NaN if there are none."""
    values = known(values)
    return float(np.quantile(values, q)) if values.size else math.nan


def high(values: Floats, q: float) -> float:
    """Return a quantile that is one of the known values, rounded down; NaN if there are none.

    So a single outlier among few values never decides the result.
    """
    values = known(values)
    return float(np.quantile(values, q, method="lower")) if values.size else math.nan


def trend(values: Floats) -> float:
    """Return Spearman's rank correlation of the known values with their order, -1 to 1.

    It is -1 if the values always fall, 1 if they always rise. Equal values count as rising, so constant
    values do not count as falling. Fewer than two values give 0.
    """
    values = known(values)
    if values.size < 2:
        return 0.0
    order = np.argsort(values, kind="stable")
    ranks = np.empty(values.size)
    ranks[order] = np.arange(values.size)
    return float(np.corrcoef(ranks, np.arange(values.size))[0, 1])


def rising_fit(values: Floats) -> Floats:
    """Return the never-falling series of the same length nearest to the known values by least squares.

    Neighbours that fall are pooled until none does (Barlow et al. 1972, pool adjacent violators).
    """
    pools: list[tuple[float, int]] = []  # mean and size
    for value in known(values).tolist():
        pool_mean, size = value, 1
        while pools and pools[-1][0] >= pool_mean:
            previous, count = pools.pop()
            pool_mean = (previous * count + pool_mean * size) / (count + size)
            size += count
        pools.append((pool_mean, size))
    return np.repeat([pool_mean for pool_mean, _ in pools], [size for _, size in pools])


def total(values: Floats) -> float:
    """Return the sum of the known values."""
    return float(known(values).sum())


def ratio(part: float, whole: float) -> float:
    """Return ``part / whole``; NaN if ``whole`` is not above 0."""
    return part / whole if whole > 0 else math.nan


def wilson(part: int, whole: int) -> tuple[float, float]:
    """Return the 95 % interval of the share that ``part`` of ``whole`` independent samples show, 0 to 1.

    Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927). It is
    (0, 1) without samples.
    """
    if whole <= 0:
        return 0.0, 1.0
    share, z2 = part / whole, NORMAL_95**2
    middle = (share + z2 / (2 * whole)) / (1 + z2 / whole)
    half = NORMAL_95 / (1 + z2 / whole) * math.sqrt(share * (1 - share) / whole + z2 / (4 * whole**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def autocorrelation(values: Floats, lag: int) -> float:
    """Return the correlation of the series with itself ``lag`` places later, -1 to 1.

    NaN if the series does not vary or is shorter than two lags. Values are first clipped at their 95th
    percentile: otherwise one huge wait would decide alone.
    """
    if lag < 1 or values.size < 2 * lag or values.size < 4:
        return math.nan
    clipped = np.minimum(values, np.quantile(values, 0.95))
    centred = clipped - clipped.mean()
    power = float(np.dot(centred, centred))
    if power <= 1e-18 * values.size:
        return math.nan
    # Scaled by the number of pairs, because long lags have fewer pairs.
    pairs = values.size - lag
    return float(np.dot(centred[:-lag], centred[lag:])) / power * values.size / pairs


def comb_period(waits: Floats, workers: int) -> int | None:
    """Return the number of workers if every so many waits one is long (a comb of waits); None otherwise.

    With round-robin dispatch N workers that are too slow deliver N batches at once and then are all busy
    again, so every N-th wait is long (pytorch#19836). The series must repeat at lag N and not already at a
    shorter lag.
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


@dataclass(frozen=True, slots=True)
class Growth:
    """The steady growth of one quantity, in its own unit, over ``span_s`` seconds."""

    per_s: float
    first: float
    last: float
    span_s: float

    @property
    def grown(self) -> float:
        """Return how much the quantity has grown, in its own unit."""
        return self.last - self.first

    def eta_s(self, room: float) -> float:
        """Return the seconds until ``room`` more of the quantity is used."""
        return max(0.0, room) / self.per_s


def growth(t_ns: NDArray[np.int64], values: Floats, least_s: float) -> Growth | None:
    """Return the steady growth over at least ``least_s`` seconds; None if it does not grow or levels off."""
    is_known = np.isfinite(values)
    t_ns, values = t_ns[is_known], values[is_known]
    if values.size < FEW_FOR_GROWTH:
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


def drift(t_ns: NDArray[np.int64], values: Floats) -> Growth | None:
    """Return the steady growth of a noisy series, with the ends of the straight line through it.

    None if it does not grow, levels off, or has not grown by ``CLEAR_DRIFT_FACTOR`` times the deviation from
    that line. Noise alone grows by as much in a few of a million shortest series, in longer ones less often.
    """
    is_known = np.isfinite(values)
    t_ns, values = t_ns[is_known], values[is_known]
    if values.size < FEW_FOR_DRIFT:
        return None
    t_s = (t_ns - t_ns[0]) / 1e9
    half = t_s <= t_s[-1] / 2
    if not 2 <= half.sum() <= values.size - 2:
        return None
    per_s, span_s = _slope(t_s, values), float(t_s[-1])
    if (
        not per_s > 0
        or min(_slope(t_s[half], values[half]), _slope(t_s[~half], values[~half])) < STEADY_RATIO * per_s
    ):
        return None
    line = values.mean() + per_s * (t_s - t_s.mean())
    if per_s * span_s < CLEAR_DRIFT_FACTOR * float((values - line).std()):
        return None
    return Growth(per_s, float(line[0]), float(line[-1]), span_s)


def _slope(t_s: Floats, values: Floats) -> float:
    centred = t_s - t_s.mean()
    power = float(np.dot(centred, centred))
    return float(np.dot(centred, values - values.mean())) / power if power > 0 else 0.0
