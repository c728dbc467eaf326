"""Fetches of one loader's workers, one entry per batch, and since when all of them take far longer."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.statistics import Floats, mean, median, ratio, total
from loaderwatch.detect.window import RankWindow, seconds

Ints = NDArray[np.int64]
SAMPLE_CPU_S: Final = threshold(
    50e-6, "s", "idle host: a sample of tensors took 11 to 17 µs; a small picture takes 100 µs or more"
)
COPY_BYTES_PER_S: Final = threshold(
    2e9, "bytes per s", "chosen: a slow copy within memory; a lower rate would let augmentation pass"
)
FEW_BYTES: Final = threshold(4096, "bytes", "chosen: logs and progress bars read as much for a batch")
INDEX_BYTES: Final = threshold(
    8, "bytes", "a worker reads the pickled index of a sample, of 3 to 7 bytes, from a pipe"
)
MEMORY_CPU_RATIO: Final = threshold(
    0.5, "ratio", "chosen, for an idle host: a fetch that waits longer than it computes is not from memory"
)
JUMP_FACTOR: Final = threshold(3.0, "factor", "burst credits and throughput caps cost a factor of 3 to 30")
FEW_BEFORE: Final = threshold(3, "fetches", "chosen: so many per worker before a change show the usual time")
FEW_AFTER: Final = threshold(
    2, "fetches", "chosen: so many of each worker show that a change lasts; twice as many of a lone worker"
)
TOGETHER_S: Final = threshold(2.0, "s", "chosen: all workers change within this time, or one slow fetch")


@dataclass(frozen=True, slots=True)
class StepChange:
    """The moment (ns UTC) since which all workers of a loader read slowly, with numbers before and after."""

    at_ns: int
    before_s: float  # median of the fetches before it
    after_s: float
    bytes_per_s_before: float
    bytes_per_s_after: float
    cpu_ratio: float  # of a worker's reading thread since then


@dataclass(frozen=True)
class Fetches:
    """The recent fetches of a loader's workers; arrays have one entry per batch."""

    worker: Ints
    ordinal: Ints  # how many batches the worker had fetched before in its life
    began_ns: Ints
    fetch_s: Floats
    collate_s: Floats
    cpu_s: Floats
    samples: Ints
    slow_index: Ints
    slow_s: Floats
    bytes: Floats

    @cached_property
    def ended_ns(self) -> Ints:
        """Return when each batch was ready, ns UTC, shape (fetches,)."""
        result: Ints = self.began_ns + (np.nan_to_num(self.fetch_s) * 1e9).astype(np.int64)
        return result

    @cached_property
    def cpu_ratio(self) -> float:
        """Return the workers' main-thread CPU time per second of fetching, 0 to 1; NaN if unknown."""
        known = np.isfinite(self.cpu_s) & np.isfinite(self.fetch_s)
        return ratio(float(self.cpu_s[known].sum()), float(self.fetch_s[known].sum()))

    @cached_property
    def change(self) -> StepChange | None:
        """Return since when every worker's fetches take at least three times as long; None if they do not."""
        return _step_change(self)

    @cached_property
    def may_be_changing(self) -> bool:
        """Whether the newest fetch of each of several workers is slow: too early to say why."""
        workers = [int(worker) for worker in np.unique(self.worker) if worker >= 0]
        if len(workers) < 2:
            return False
        for worker in workers:
            took = self.fetch_s[(self.worker == worker) & np.isfinite(self.fetch_s)]
            if took.size <= FEW_BEFORE or took[-1] < JUMP_FACTOR * median(took[:-1][-20:]):
                return False
        return True

    @cached_property
    def in_batch_order(self) -> Ints:
        """Return the rows in the order in which their batches were requested: round-robin over the workers.

        Earlier lives of a worker come first. If the loader does not keep its order, this is only about right.
        """
        life = np.zeros(self.worker.size, np.int64)
        for worker in np.unique(self.worker):
            rows = np.flatnonzero(self.worker == worker)
            lives = np.cumsum(np.diff(self.ordinal[rows], prepend=self.ordinal[rows[:1]]) <= 0)
            life[rows] = lives - lives[-1]
        order: Ints = np.lexsort((self.worker, self.ordinal, life))
        return order

    def where(self, mask: NDArray[np.bool_]) -> Fetches:
        """Return the fetches of a mask, shape (fetches,)."""
        return Fetches(**{field.name: getattr(self, field.name)[mask] for field in fields(self)})


def fetches_of(rank: RankWindow, loader: LoaderInfo) -> Fetches:
    """Return the fetches of a loader's workers in the window."""
    rows = rank.table("fetches")
    mask = rows["loader"] == loader.loader
    return Fetches(
        worker=rows["worker"][mask],
        ordinal=rows["ordinal"][mask],
        began_ns=rows["request_ns"][mask],
        fetch_s=seconds(rows["fetch_ns"][mask]),
        collate_s=seconds(rows["collate_ns"][mask]),
        cpu_s=seconds(rows["cpu_ns"][mask]),
        samples=rows["samples"][mask],
        slow_index=rows["slow_index"][mask],
        slow_s=seconds(rows["slow_ns"][mask]),
        bytes=np.where(rows["bytes"][mask] == UNKNOWN, np.nan, rows["bytes"][mask]).astype(np.float64),
    )


def taken_from_memory(
    samples: float, cpu_s: float, took_s: float, size: float, *, read: float, slowness: float = 1.0
) -> bool:
    """Whether a batch costs no more CPU time than indexing and copying samples that lie in memory.

    False if a number is unknown; only ``size`` may be unknown. The batch needed ``read`` bytes from files or
    sockets. Work takes ``slowness`` times as long on this host as on an idle one.
    """
    if not read <= FEW_BYTES + INDEX_BYTES * samples:
        return False
    copied_s = (size if math.isfinite(size) else 0.0) / COPY_BYTES_PER_S
    cheap = 0 < cpu_s <= (samples * SAMPLE_CPU_S + copied_s) * slowness
    return cheap and cpu_s >= MEMORY_CPU_RATIO / slowness * took_s


def _step_change(fetches: Fetches) -> StepChange | None:
    """Return the moment since which every worker fetches far more slowly; None if there is none.

    If the batches grew by as much, the storage has not changed.
    """
    workers = [int(worker) for worker in np.unique(fetches.worker) if worker >= 0]
    if not workers:
        return None
    few_after = FEW_AFTER if len(workers) > 1 else 2 * FEW_AFTER
    turns, before, after = [], [], []
    for worker in workers:
        rows = np.flatnonzero((fetches.worker == worker) & np.isfinite(fetches.fetch_s))
        split = _split(fetches.fetch_s[rows], few_after)
        if split is None:
            return None
        # The change hit this fetch: it lies between the fetch's start and the end of a usual fetch.
        turns.append(int(fetches.began_ns[rows[split]]))
        before.append(rows[:split])
        after.append(rows[split:])
    old, new = np.concatenate(before), np.concatenate(after)
    before_s, after_s = median(fetches.fetch_s[old]), median(fetches.fetch_s[new])
    if (max(turns) - min(turns)) / 1e9 > max(TOGETHER_S, after_s):
        return None
    grown = ratio(mean(fetches.bytes[new]), mean(fetches.bytes[old]))
    if grown >= 0.5 * after_s / before_s:
        return None
    return StepChange(
        at_ns=min(turns),
        before_s=before_s,
        after_s=after_s,
        bytes_per_s_before=_throughput(fetches, old),
        bytes_per_s_after=_throughput(fetches, new),
        cpu_ratio=ratio(total(fetches.cpu_s[new]), total(fetches.fetch_s[new])),
    )


def _split(took: NDArray[np.float64], few_after: int) -> int | None:
    """Return the index from which a worker's fetches stay slow; None if there is none."""
    if took.size < FEW_BEFORE + few_after:
        return None
    usual_s = float(np.quantile(took, 0.1))
    # Slow means nearer to the slow end than to the quick one, on a logarithmic scale.
    end_s = median(took[-few_after:])
    if not 0 < JUMP_FACTOR * usual_s <= end_s:
        return None
    slow = took > math.sqrt(usual_s * end_s)
    quick = np.flatnonzero(~slow)
    split = int(quick[-1]) + 1
    before_s = took[max(0, split - 20) : split]
    if split < FEW_BEFORE or took.size - split < few_after or slow[max(0, split - 20) : split].mean() > 0.2:
        return None
    return split if median(took[split:]) >= JUMP_FACTOR * median(before_s) else None


def _throughput(fetches: Fetches, rows: NDArray[np.int64]) -> float:
    lasted_s = (int(fetches.ended_ns[rows].max()) - int(fetches.began_ns[rows].min())) / 1e9
    return ratio(total(fetches.bytes[rows]), lasted_s)
