"""Whether workers take turns, as their fetches show: what one worker gets done, the others lack.

Workers that wait independently are slow or fast by chance. The variance of their total work is then the sum
of their own variances, and more if something slows all of them down. If workers share one resource, one is
fast because the others wait, so their total work hardly varies.

A pattern in the data may look the same, for example if every third batch is heavy. To tell the two apart,
compare one worker with another one shifted in time. The shift removes the effect of sharing; a pattern in the
data stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.fetches import Fetches
from loaderwatch.detect.measures.statistics import mean

FETCHES_A_SLICE: Final = threshold(
    2.0, "fetches", "chosen: of one worker, on average; nobody sees the progress within one fetch"
)
FEW_TURN_SLICES: Final = threshold(16, "slices", "chosen: a variance of fewer says little")
MOST_TURN_SLICES: Final = threshold(120, "slices", "chosen: the newest slices are enough to compare")
OWN_SPREAD_RATIO: Final = threshold(
    0.08, "ratio", "chosen: of the mean; if the workers' own variation adds up to less, turns cannot be seen"
)
TOGETHER_VARIANCE_RATIO: Final = threshold(
    0.45, "ratio", "played and simulated: of summed variances, 0.03 to 0.5 with polled locks, else 0.8 up"
)
BY_CHANCE_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the variation with workers shifted in time; above it, it is a pattern"
)
LEAST_SPREAD_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of the variation by chance; a smaller one depends on where the slices begin"
)
MOST_APART: Final = threshold(
    12, "slices", "chosen: neighbouring workers are shifted by one slice up to so many"
)
WORKERS_BUSY_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of their time at a batch; workers that keep up only do what the loop takes"
)
BUSY_SLICE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the usual work in a slice; slices with less hold the end of an epoch"
)

Done = NDArray[np.float64]
"""The batches that each worker gets done in slices of equal length, shape (workers, slices)."""


@dataclass(frozen=True, slots=True)
class Turns:
    """How much the workers' work varies from slice to slice, as shares of the mean; NaN if not known."""

    slice_s: float
    own_ratio: float  # of independent workers: the root of the summed variances of all workers
    together_ratio: float  # of the total work of all workers
    apart_ratio: float  # of the total work with the workers shifted in time, the least of several shifts

    @property
    def taken(self) -> bool:
        """Whether the workers take turns."""
        return (
            self.own_ratio >= OWN_SPREAD_RATIO
            and self.together_ratio**2 <= TOGETHER_VARIANCE_RATIO * self.own_ratio**2
            and max(self.together_ratio, LEAST_SPREAD_RATIO * self.own_ratio)
            <= BY_CHANCE_RATIO * self.apart_ratio
        )


UNKNOWN_TURNS: Final = Turns(math.nan, math.nan, math.nan, math.nan)


def turns_of(fetches: Fetches) -> Turns:
    """Return how the workers of one loader take turns; all NaN for one worker or too few known fetches."""
    known = np.isfinite(fetches.fetch_s) & (fetches.fetch_s > 0) & (fetches.worker >= 0)
    worker, began_ns, took_s = fetches.worker[known], fetches.began_ns[known], fetches.fetch_s[known]
    numbers = np.unique(worker)
    if numbers.size < 2:
        return UNKNOWN_TURNS
    slice_s = FETCHES_A_SLICE * mean(took_s)
    began_s = (began_ns - began_ns.max()) / 1e9
    ended_s = began_s + took_s
    # Open fetches are missing. So a worker seems idle before its first known fetch and after its last one.
    first_s = max(began_s[worker == number].min() for number in numbers)
    last_s = min(ended_s[worker == number].max() for number in numbers)
    slices = min(MOST_TURN_SLICES, int((last_s - first_s) / slice_s))
    if slices < FEW_TURN_SLICES:
        return UNKNOWN_TURNS
    edges = last_s - slice_s * np.arange(slices, -1, -1)
    done, busy = np.zeros((numbers.size, slices)), np.zeros(slices)
    for row, number in enumerate(numbers):
        own = (worker == number) & (ended_s > edges[0])
        within = np.clip(edges[:, None], began_s[own], ended_s[own]) - began_s[own]
        done[row] = np.diff((within / took_s[own]).sum(axis=1))
        busy += np.diff(within.sum(axis=1)) / slice_s
    usually = float(np.median(busy))
    used = busy >= BUSY_SLICE_RATIO * usually
    if usually < WORKERS_BUSY_RATIO * numbers.size or used.sum() < FEW_TURN_SLICES:
        return UNKNOWN_TURNS
    done = done[:, used]
    usual = float(done.sum(axis=0).mean())
    apart = [
        _spread(np.stack([np.roll(work, by * row) for row, work in enumerate(done)]))
        for by in range(1, MOST_APART + 1)
    ]
    own = math.sqrt(float(done.var(axis=1).sum()))
    return Turns(slice_s, own / usual, _spread(done) / usual, min(apart) / usual)


def _spread(done: Done) -> float:
    """Return the standard deviation of the total work of all workers in a slice."""
    return float(done.sum(axis=0).std())
