"""The course of a loader over the run: its usual times in slices that become longer as the run goes on.

The recent past is too short for what changes slowly. A course keeps an hour in ``MOST_COURSE_SLICES`` rows, whatever the
rate of batches: when it is full, neighbours become one slice of twice the length, until a slice lasts
``LONGEST_SLICE_NS``; from then on the oldest one leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold

MOST_COURSE_SLICES: Final = threshold(
    64, "slices", "chosen: what changes slowly shows within an hour; bounds the memory of a course"
)
FIRST_SLICE_NS: Final = threshold(
    1_000_000_000, "ns", "chosen: a drift shows in 16 slices, so 16 s after a run begins"
)
LONGEST_SLICE_NS: Final = threshold(
    64 * FIRST_SLICE_NS, "ns", "chosen: about a minute, so that a full course is an hour and eight minutes"
)


@dataclass(frozen=True)
class Course:
    """A loader's times on one rank; arrays have one entry per slice in which it was read, oldest first.

    Each is the typical value of a slice (see ``measures.slices.typical``), in seconds or bytes; NaN where it is not known.
    """

    slice_ns: int  # how long a slice is, the newest ones at least
    t_ns: NDArray[np.int64]  # the middle of each slice, UTC
    epoch: NDArray[np.int64]  # the loader's epoch in which it ended
    step_s: NDArray[np.float64]  # an iteration without its data wait
    script_s: NDArray[
        np.float64
    ]  # of that, what is neither copy nor model nor optimizer, by the loop's clock
    model_s: NDArray[np.float64]  # of that, the forward and the backward pass, likewise
    optimizer_s: NDArray[np.float64]  # the optimizer's step, of those that made one
    fetch_s: NDArray[np.float64]  # a worker's fetch of a batch
    fetch_cpu_s: NDArray[np.float64]  # the CPU time of one
    batch_bytes: NDArray[np.float64]  # of the tensors of one
    headroom_s: NDArray[np.float64]  # by the device's clock, see ``Pace.headroom_s``

    def newest(self, slices: int) -> Course:
        """Return the course with only its newest slices."""
        return self._chosen(np.arange(max(0, self.t_ns.size - slices), self.t_ns.size))

    def with_slices(self, newer: Course) -> Course:
        """Return the course with these slices, which follow it, appended."""
        both = {name: np.concatenate((getattr(self, name), getattr(newer, name))) for name in _ARRAYS}
        grown = Course(self.slice_ns, **both)
        while grown.t_ns.size > MOST_COURSE_SLICES and grown.slice_ns < LONGEST_SLICE_NS:
            grown = grown._coarser()
        return grown.newest(MOST_COURSE_SLICES)

    def _coarser(self) -> Course:
        """Return the course with each two neighbours as one slice; one alone, beside a gap, stays as it is."""
        length = 2 * self.slice_ns
        firsts = np.flatnonzero(np.diff(self.t_ns // length, prepend=UNKNOWN))
        sizes = np.diff(np.append(firsts, self.t_ns.size))
        means = {name: _means(getattr(self, name), firsts) for name in _MEASURED}
        return replace(
            self,
            slice_ns=length,
            t_ns=self.t_ns[0] + np.add.reduceat(self.t_ns - self.t_ns[0], firsts) // sizes,
            epoch=np.maximum.reduceat(self.epoch, firsts),
            **means,
        )

    def _chosen(self, rows: NDArray[np.intp]) -> Course:
        return replace(self, **{name: getattr(self, name)[rows] for name in _ARRAYS})


_ARRAYS: Final = tuple(field.name for field in fields(Course) if field.name != "slice_ns")
_MEASURED: Final = tuple(name for name in _ARRAYS if name not in ("t_ns", "epoch"))


def _means(values: NDArray[np.float64], firsts: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the mean of the known values of each group that begins at one of ``firsts``; NaN without any."""
    known = np.isfinite(values)
    counts = np.add.reduceat(known.astype(np.float64), firsts)
    sums = np.add.reduceat(np.where(known, values, 0.0), firsts)
    result: NDArray[np.float64] = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    return result
