"""The sizes of a loop's batches: which were never seen before, and which are several times the usual."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.statistics import Floats, median
from loaderwatch.detect.slow_step.long_steps import FEW_LONG_STEPS, Pauses
from loaderwatch.detect.window import RankWindow

LARGE_BATCH_FACTOR: Final = threshold(
    2.0, "factor", "chosen: times the usual size; four times as long a step then has clearly more to do"
)
SIZE_TELLS_RATIO: Final = threshold(
    0.6, "ratio", "chosen: of the long steps, with such a batch; and of such batches, in long steps"
)


@dataclass(frozen=True)
class BatchSizes:
    """The sizes of the batches of one loop; arrays have an entry per row of the pace.

    Attributes:
        long: whether the step is one of the long ones.
        ratio: size over the usual size of steps that are not long; NaN if the size is not known.
        new: whether the batch had a size never seen before.
        repeats: how many batches had a size that was seen before.
        different: how many different sizes there are.
    """

    long: NDArray[np.bool_]
    ratio: Floats
    new: NDArray[np.bool_]
    repeats: int
    different: int

    @property
    def newness_tells(self) -> bool:
        """Whether new sizes coincide with long steps.

        Sizes that change with every batch are new at every step, long or not, and prove nothing.
        """
        return self.repeats >= FEW_LONG_STEPS and self._tells(self.new, least=2)

    @property
    def largeness_tells(self) -> bool:
        """Whether batches several times larger than usual coincide with long steps."""
        with np.errstate(invalid="ignore"):
            return self._tells(self.ratio >= LARGE_BATCH_FACTOR, least=FEW_LONG_STEPS)

    @property
    def long_ratio(self) -> float:
        """Return the batch size of long steps as a multiple of the usual size; their median."""
        return median(self.ratio[self.long & (self.ratio >= LARGE_BATCH_FACTOR)])

    def _tells(self, mask: NDArray[np.bool_], least: int) -> bool:
        both = int((mask & self.long).sum())
        enough = both >= max(least, SIZE_TELLS_RATIO * int(self.long.sum()))
        return enough and int((mask & ~self.long).sum()) <= (1 - SIZE_TELLS_RATIO) * int(mask.sum())


def sizes_of(pauses: Pauses) -> BatchSizes | None:
    """Return the sizes of the batches around a loop's long steps; None if none is known."""
    sizes = _batch_bytes(pauses.rank, pauses.pace.loader)
    pace = pauses.pace
    keys = list(zip(pace.epoch.tolist(), pace.batch.tolist(), strict=True))
    if not any(key in sizes for key in keys):
        return None
    oldest = min(keys)
    seen = {size for key, size in sizes.items() if key < oldest}
    new, repeats = np.zeros(len(keys), dtype=bool), 0
    mine = np.full(len(keys), math.nan)
    for row, key in enumerate(keys):
        size = sizes.get(key)
        if size is None:
            continue
        mine[row] = size
        new[row] = size not in seen
        repeats += size in seen
        seen.add(size)
    long = np.zeros(len(keys), dtype=bool)
    long[pauses.rows] = True
    return BatchSizes(long, mine / median(mine[~long]), new, repeats, len(seen))


def _batch_bytes(rank: RankWindow, loader: LoaderInfo) -> dict[tuple[int, int], int]:
    """Return each batch's tensor bytes by (epoch, batch), for the epochs that began within the window.

    Within an epoch, the n-th batch from a worker is the n-th that it fetched. This is not so with
    ``in_order=False``, for which the result is empty. It cannot be counted for an epoch that began before the
    window.
    """
    if loader.in_order is False:
        return {}
    steps, fetches, begins = rank.table("steps"), rank.table("fetches"), rank.table("epoch_begins")
    mine = fetches["loader"] == loader.loader
    if not mine.any():
        return {}
    began_ns, worker, size = (fetches[name][mine] for name in ("request_ns", "worker", "bytes"))
    rows = steps["loader"] == loader.loader
    epochs, batches = steps["epoch"][rows], steps["batch"][rows]
    # With num_workers=0 no worker is awaited, and the fetches belong to worker -1.
    awaited = np.where(steps["awaited_worker"][rows] == UNKNOWN, -1, steps["awaited_worker"][rows])
    starts = {
        int(epoch): int(at_ns)
        for epoch, at_ns, number in zip(begins["epoch"], begins["request_ns"], begins["loader"], strict=True)
        if number == loader.loader
    }
    bytes_of: dict[tuple[int, int], int] = {}
    for epoch in np.unique(epochs):
        start, end = starts.get(int(epoch)), starts.get(int(epoch) + 1, END_OF_TIME_NS)
        inside = epochs == epoch
        if start is None or int(batches[inside].min()) != 0 or start < int(began_ns[0]) - 60_000_000_000:
            continue
        for number in np.unique(awaited[inside]):
            fetched = size[(worker == number) & (began_ns >= start) & (began_ns < end)]
            delivered = np.sort(batches[inside & (awaited == number)])
            for batch, value in zip(delivered.tolist(), fetched.tolist(), strict=False):
                if value > 0:
                    bytes_of[int(epoch), int(batch)] = int(value)
    return bytes_of
