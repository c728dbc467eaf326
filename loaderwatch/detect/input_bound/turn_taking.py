"""Whether workers take turns, as their fetches tell: what one gets done, the others lack.

Workers that wait each for itself are slow and quick by chance, one without the other: what all of them get done varies as much as
chances add up, and more where something slows all of them down. Of workers that share what only one can have, one is quick because the
others wait: together they always get the same done, whoever it is.

A pattern in the data may look so as well: every third batch a heavy one. Then it looks so, too, when one worker's past is
laid beside another worker's of some time later, which undoes whatever they owe to each other.
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
    2.0, "fetches", "chosen: of one worker, on average; within one fetch nobody sees when it got on"
)
FEW_TURN_SLICES: Final = threshold(16, "slices", "chosen: a variance of fewer says little")
MOST_TURN_SLICES: Final = threshold(120, "slices", "chosen: the newest slices are enough to compare")
OWN_SPREAD_RATIO: Final = threshold(
    0.08, "ratio", "chosen: of the mean; when the workers' own chances add up to less, nothing can be told"
)
TOGETHER_VARIANCE_RATIO: Final = threshold(
    0.45,
    "ratio",
    "played and simulated: 0.03 to 0.5 of the variances added up with "
    "locks that are polled, 0.8 and more with reads of their own",
)
BY_CHANCE_RATIO: Final = threshold(
    0.8,
    "ratio",
    "chosen: of the variation with the workers' pasts laid "
    "apart; if all together vary as much, it is a pattern",
)
LEAST_SPREAD_RATIO: Final = threshold(
    0.25, "ratio", "chosen: of what would vary by chance; a smaller variation depends on how the slices fall"
)
MOST_APART: Final = threshold(
    12, "slices", "chosen: the pasts of two neighbouring workers are laid apart by one slice to so many"
)
WORKERS_BUSY_RATIO: Final = threshold(
    0.5,
    "ratio",
    "chosen: of their time at a batch; workers that keep up rest, and get done together what the loop takes",
)
BUSY_SLICE_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the usual work in a slice; slices with less hold the end of an epoch"
)

Done = NDArray[np.float64]
"""What each worker gets done in slices of equal length, in batches, shape (workers, slices)."""


@dataclass(frozen=True, slots=True)
class Turns:
    """How much what the workers get done varies from slice to slice, as shares of the mean; NaN where too little is known."""

    slice_s: float
    own_ratio: float  # by chance, each for itself: the standard deviations of all workers, added up as those of what is independent
    together_ratio: float  # all together
    apart_ratio: float  # all together with their pasts laid apart, the least of several

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
    """Return how the workers of one loader take turns; all NaN for fewer than two, and where too few fetches are known."""
    known = np.isfinite(fetches.fetch_s) & (fetches.fetch_s > 0) & (fetches.worker >= 0)
    worker, began_ns, took_s = fetches.worker[known], fetches.began_ns[known], fetches.fetch_s[known]
    numbers = np.unique(worker)
    if numbers.size < 2:
        return UNKNOWN_TURNS
    slice_s = FETCHES_A_SLICE * mean(took_s)
    began_s = (began_ns - began_ns.max()) / 1e9
    ended_s = began_s + took_s
    # A fetch that goes on is not known: after the first end of a last one a worker seems idle, and before its first one.
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
        _spread(np.stack([np.roll(one, by * row) for row, one in enumerate(done)]))
        for by in range(1, MOST_APART + 1)
    ]
    own = math.sqrt(float(done.var(axis=1).sum()))
    return Turns(slice_s, own / usual, _spread(done) / usual, min(apart) / usual)


def _spread(done: Done) -> float:
    """Return the standard deviation of what all get done in a slice."""
    return float(done.sum(axis=0).std())
