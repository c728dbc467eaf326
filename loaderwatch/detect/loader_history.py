"""The course of a loader over the run: its usual times in slices that become longer as the run goes on.

The recent past is too short for slow changes. A course keeps about an hour in ``MOST_COURSE_SLICES`` rows at
any batch rate. When it is full, pairs of neighbours become one slice of twice the length. Once a slice lasts
``LONGEST_SLICE_NS``, the oldest slices are dropped instead.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold

MOST_COURSE_SLICES: Final = threshold(64, "slices", "chosen: bounds memory; slow changes show in an hour")
FIRST_SLICE_NS: Final = threshold(1_000_000_000, "ns", "chosen: a drift shows in 16 slices, so after 16 s")
LONGEST_SLICE_NS: Final = threshold(
    64 * FIRST_SLICE_NS, "ns", "chosen: about a minute, so a full course lasts an hour and eight minutes"
)


@dataclass(frozen=True)
class Course:
    """A loader's times on one rank; arrays have one entry per slice in which it was read, oldest first.

    Each is the typical value of a slice (``measures.history_slices.typical``), in s or bytes; NaN if unknown.
    """

    slice_ns: int  # length of a slice; one beside a gap may be shorter
    t_ns: NDArray[np.int64]  # the middle of each slice, UTC
    epoch: NDArray[np.int64]  # the loader's epoch at the end of the slice
    step_s: NDArray[np.float64]  # an iteration without its data wait
    script_s: NDArray[np.float64]  # part of it outside copy, model and optimizer, by the loop's clock
    model_s: NDArray[np.float64]  # part of it in the forward and backward pass, by the loop's clock
    optimizer_s: NDArray[np.float64]  # the optimizer's step, of iterations that have one
    fetch_s: NDArray[np.float64]  # a worker's fetch of a batch
    fetch_cpu_s: NDArray[np.float64]  # CPU time of a fetch
    batch_bytes: NDArray[np.float64]  # size of a batch's tensors
    headroom_s: NDArray[np.float64]  # by the device's clock, see ``Pace.headroom_s``

    def newest(self, slices: int) -> Course:
        """Return the course with only its newest slices."""
        return self._chosen(np.arange(max(0, self.t_ns.size - slices), self.t_ns.size))

    def with_slices(self, newer: Course) -> Course:
        """Return the course with newer slices appended."""
        both = {name: np.concatenate((getattr(self, name), getattr(newer, name))) for name in _ARRAYS}
        grown = Course(self.slice_ns, **both)
        while grown.t_ns.size > MOST_COURSE_SLICES and grown.slice_ns < LONGEST_SLICE_NS:
            grown = grown._coarser()
        return grown.newest(MOST_COURSE_SLICES)

    def _coarser(self) -> Course:
        """Return the course with each pair of neighbours as one slice; a slice beside a gap stays alone."""
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
    """Return the mean of the known values per group, with groups beginning at ``firsts``; NaN without any."""
    known = np.isfinite(values)
    counts = np.add.reduceat(known.astype(np.float64), firsts)
    sums = np.add.reduceat(np.where(known, values, 0.0), firsts)
    result: NDArray[np.float64] = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    return result
