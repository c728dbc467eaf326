"""Which part of an epoch boundary takes the time, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Param
from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import EndedBy, IterKind
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.measures.boundaries import Boundary
from loaderwatch.detect.measures.statistics import mean

JOIN_TIMEOUT_S: Final = threshold(
    5.0, "s", "PyTorch: a DataLoader joins each worker for 5 s, one after the other (pytorch#39570)"
)
FEW_BATCHES: Final = threshold(2, "batches", "chosen: an epoch of so few batches wastes its iterator")
MANY_REBUILDS: Final = threshold(5, "epochs", "chosen: so many epochs left after a batch or two are a habit")
USED_PART: Final = threshold(
    0.5, "ratio", "chosen: of the drawn samples; a loop that leaves its epochs early uses at most this share"
)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an epoch boundary: means over several boundaries, in seconds."""

    sampler_s: float
    start_s: float
    first_s: float
    teardown_s: float

    @property
    def total_s(self) -> float:
        """Return the seconds of the whole boundary."""
        return self.sampler_s + self.start_s + self.first_s + self.teardown_s


def parts_of(paid: Sequence[Boundary]) -> Parts:
    """Return the mean seconds of each part over the boundaries."""
    size = max(1, len(paid))
    return Parts(
        sampler_s=sum(min(b.sampler_s, b.iter_s) for b in paid) / size,
        start_s=sum(b.start_s for b in paid) / size,
        first_s=sum(b.first_wait_s for b in paid) / size,
        teardown_s=sum(b.teardown_s for b in paid) / size,
    )


def rebuilt(loader: LoaderInfo, found: Sequence[Boundary]) -> list[Boundary]:
    """Return the newest boundaries whose previous epoch gave only one or two of many batches: S32.

    Return none unless nearly all of the newest boundaries are such.
    """
    newest = list(found)[-50:]
    dropped = [b for b in newest if dropped_early(loader, b)]
    return dropped if len(dropped) >= max(MANY_REBUILDS, 0.8 * (len(newest) - 1)) else []


def dropped_early(loader: LoaderInfo, boundary: Boundary) -> bool:
    """Whether the previous epoch gave only one or two of many batches and was left early."""
    many_exist = loader.batches is None or loader.batches > 2 * FEW_BATCHES
    given = boundary.batches_before
    return (
        many_exist
        and given is not None
        and 0 < given <= FEW_BATCHES
        and boundary.ended_by is not EndedBy.EXHAUSTED
    )


def explain_rebuilt(loader: LoaderInfo, paid: Sequence[Boundary]) -> Explanation:
    """Explain S32: a new iterator is made for nearly every batch."""
    parts = parts_of(paid)
    ahead = (loader.num_workers or 0) * (loader.prefetch_factor or 2)
    spacing_s = (paid[-1].request_ns - paid[0].request_ns) / 1e9 / max(1, len(paid) - 1)
    gap_s = sum(b.gap_s for b in paid) / len(paid)
    return Explanation(
        scenario="S32",
        confidence=0.9,
        rule="iterator-per-batch",
        params={
            "loader": loader.name,
            "times": len(paid),
            "each_s": parts.total_s,
            "ahead": ahead if loader.num_workers else None,
        },
        # All time between two iterators but the loop's own work: forking costs more than the parts show.
        saved_s=max(parts.total_s, spacing_s - gap_s),
    )


def explain(loader: LoaderInfo, paid: Sequence[Boundary], usual_fetch_s: float) -> Explanation:
    """Explain the cost of the boundaries by the scenario of their most expensive part.

    ``usual_fetch_s``: median time of a fetch in seconds; NaN if unknown.
    """
    parts = parts_of(paid)
    newest = paid[-1]
    half = 0.5 * parts.total_s
    drawing_s = parts.sampler_s + _drawn_later_s(loader, paid, parts)
    if drawing_s >= half:
        return _sampler(loader, paid, drawing_s)
    if parts.teardown_s >= half and parts.teardown_s >= 1.0:
        return _teardown(loader, parts, newest)
    started = newest.kind is IterKind.STARTED
    filling = _filling(paid, parts, usual_fetch_s)
    if not started and parts.start_s >= 0.3 * parts.total_s and _drains(paid):
        return _reset_drain(loader, parts, paid)
    if parts.first_s >= half and filling and (not started or loader.iterable_dataset):
        return _slow_first_batch(loader, parts, started)
    if started:
        return _workers_started(loader, parts, paid, usual_fetch_s)
    if parts.teardown_s >= max(parts.first_s, parts.start_s):
        return _teardown(loader, parts, newest)
    return _slow_first_batch(loader, parts, started)


def _drains(paid: Sequence[Boundary]) -> bool:
    return any(b.drained > 0 or b.ended_by is EndedBy.BREAK for b in paid)


def _filling(paid: Sequence[Boundary], parts: Parts, usual_fetch_s: float) -> bool:
    """Whether the workers took much longer for the first batch than for a usual one."""
    first_s = _first_fetch_s(paid)
    return first_s >= 0.6 * parts.first_s and not first_s < 3 * usual_fetch_s


def _first_fetch_s(paid: Sequence[Boundary]) -> float:
    """Return the mean seconds of the first fetch of an epoch; NaN if unknown."""
    return mean(np.array([b.first_fetch_s for b in paid]))


def _drawn_later_s(loader: LoaderInfo, paid: Sequence[Boundary], parts: Parts) -> float:
    """Return the seconds of drawing in the first wait: without workers ``iter(loader)`` does not draw yet."""
    drawing_s = parts.first_s - _first_fetch_s(paid)
    return drawing_s if loader.num_workers == 0 and not loader.iterable_dataset and drawing_s > 0 else 0.0


def _sampler(loader: LoaderInfo, paid: Sequence[Boundary], drawing_s: float) -> Explanation:
    batches_given = [b.batches_before for b in paid if b.batches_before is not None]
    used = max(batches_given, default=0) * (loader.batch_size or 0)
    few = 0 < used <= USED_PART * (loader.dataset_length or 0)
    return Explanation(
        scenario="S15",
        confidence=0.9,
        rule="slow-shuffle",
        params={
            "drawing_s": drawing_s,
            "samples": loader.dataset_length or None,
            "used": used if few else None,
        },
        saved_s=drawing_s,
    )


def _teardown(loader: LoaderInfo, parts: Parts, newest: Boundary) -> Explanation:
    workers = newest.workers or loader.num_workers or 0
    joins = round(parts.teardown_s / JOIN_TIMEOUT_S)
    timed_out = joins >= 1 and abs(parts.teardown_s - joins * JOIN_TIMEOUT_S) < 0.3
    return Explanation(
        scenario="S31",
        confidence=0.9 if timed_out else 0.75,
        rule="slow-worker-shutdown",
        params={
            "teardown_s": parts.teardown_s,
            "workers": workers,
            "joins": joins if timed_out else None,
        },
        saved_s=parts.teardown_s,
    )


def _reset_drain(loader: LoaderInfo, parts: Parts, paid: Sequence[Boundary]) -> Explanation:
    drained = max(b.drained for b in paid)
    return Explanation(
        scenario="S30",
        confidence=0.9 if drained else 0.75,
        rule="read-ahead-thrown-away",
        params={
            "loader": loader.name,
            "start_s": parts.start_s,
            "prefetch_factor": loader.prefetch_factor or 2,
            "workers": loader.num_workers or 0,
            "drained": drained or None,
        },
        saved_s=parts.start_s,
    )


def _slow_first_batch(loader: LoaderInfo, parts: Parts, started: bool) -> Explanation:
    iterable = bool(loader.iterable_dataset)
    params: dict[str, Param] = {"first_s": parts.first_s}
    if iterable:
        rule = "shuffle-buffer-refilled"
        params["persist"] = started
    else:
        rule = "first-batch-without-workers" if loader.num_workers == 0 else "first-batch-not-read-ahead"
    return Explanation(
        scenario="S33",
        confidence=0.85 if iterable else 0.6,
        rule=rule,
        params=params,
        saved_s=parts.first_s,
    )


def _workers_started(
    loader: LoaderInfo, parts: Parts, paid: Sequence[Boundary], usual_fetch_s: float
) -> Explanation:
    refill_s = min(parts.first_s, usual_fetch_s) if math.isfinite(usual_fetch_s) else 0.0
    persistent = loader.persistent_workers is True
    recreated = persistent or 2 * sum(b.rebuilt for b in paid) > len(paid)
    params: dict[str, Param] = {
        "workers": paid[-1].workers or loader.num_workers or 0,
        "method": loader.start_method or None,
        "pickles": loader.start_method in ("spawn", "forkserver"),
        "until_s": parts.start_s + parts.first_s,
        "start_s": parts.start_s,
        "first_s": parts.first_s,
        "teardown_s": parts.teardown_s,
    }
    if recreated:
        params["persistent"] = persistent
    return Explanation(
        scenario="S28",
        confidence=0.9,
        rule="dataloader-made-each-epoch" if recreated else "workers-restarted-each-epoch",
        params=params,
        saved_s=max(0.0, parts.total_s - refill_s),
    )
