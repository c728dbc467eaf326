"""Which ranks of a run stand out: by recent time use, by state, or by where they are stuck."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import isfinite, nan
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.detect.window import SummedRank
from loaderwatch.server.envelope_intervals import behind_s

Floats = NDArray[np.float64]

SPREAD: Final = 6.0
"""A rank stands out if it is this many median deviations from the median. In a normal distribution these are
four standard deviations, which one of 16,000 ranks exceeds by chance."""
RATIO_FLOOR: Final = 0.1
"""Smallest difference of a share (data wait, utilization) that stands out, where ranks hardly differ."""
TIME_FLOOR: Final = 0.1
"""Smallest difference of a time that stands out, as a part of the median."""
STANDS_S: Final = 3.0
"""A rank that has been in the same phase for this long is stuck."""
BEHIND_S: Final = 5.0
"""A host without news for this long is behind, where streams send often."""
FEW: Final = 0.05
"""Stuck ranks stand out if at most this share of all ranks is stuck at the same place."""
SCARCE_RATIO: Final = 0.7
"""A host is looked at when this part of its memory, shared memory or filling disk is used. On a host that is
not looked at, detectors therefore forecast a leak later than elsewhere."""
_RUN_OUT: Final = (
    "memory_available_bytes",
    "memory_total_bytes",
    "memory_used_bytes",
    "memory_limit_bytes",
    "shm_used_bytes",
    "shm_total_bytes",
    "filling_disk_free_bytes",
    "filling_disk_total_bytes",
)
_STATE, _HOST, _PLACE = 5.0, 3.0, 2.0
"""Scores: a dead rank comes before a silent host, and a silent host before a stuck rank."""


def standing_out(ranks: Sequence[SummedRank]) -> Floats:
    """Return how far each rank of a run is from the others, shape (ranks,). From 1 on it stands out."""
    if not ranks:
        return np.zeros(0)
    batches = np.array([rank.batches for rank in ranks])
    waited, worked, forward, backward = (
        np.array([getattr(rank, name) for rank in ranks])
        for name in ("waited_s", "worked_s", "forward_s", "backward_s")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = [
            off(waited / (waited + worked), RATIO_FLOOR, 0.0),
            off(np.array([rank.utilization_ratio for rank in ranks]), RATIO_FLOOR, 0.0),
            *(
                off(taken / batches, 0.0, TIME_FLOOR)
                for taken in (waited + worked, worked, forward, backward)
            ),
        ]
    score: Floats = np.maximum.reduce([*scores, _places(ranks)])
    return score


def off(values: Floats, floor: float, floor_ratio: float) -> Floats:
    """Return each value's distance from the median, relative to the usual distance, shape (ranks,).

    It is 0 if unknown. The usual distance is ``SPREAD`` median deviations, ``floor``, and a part of the
    median.
    """
    known = np.isfinite(values)
    if known.sum() < 2:
        return np.zeros(len(values))
    median = float(np.median(values[known]))
    distances = np.abs(values - median)
    usual_distance = SPREAD * float(np.median(distances[known])) + floor + floor_ratio * median
    return np.where(known, distances / usual_distance, 0.0) if usual_distance > 0 else np.zeros(len(values))


def _places(ranks: Sequence[SummedRank]) -> Floats:
    """Return how much ranks stand out by their state, their host's silence, or where they are stuck."""
    states = Counter(_state(rank) for rank in ranks)
    newest_ns = max(rank.made_ns for rank in ranks)
    behind_ns = behind_s(len(ranks), BEHIND_S) * 1e9
    few_ranks = max(1.0, FEW * len(ranks))
    rank_places = [_stands_at(rank) for rank in ranks]
    places = Counter(place for place in rank_places if place is not None)
    scores = np.zeros(len(ranks))
    for index, (rank, place) in enumerate(zip(ranks, rank_places, strict=True)):
        if states[_state(rank)] <= min(few_ranks, len(ranks) / 2):
            scores[index] = _STATE
        elif rank.process.state == "live" and newest_ns - rank.made_ns > behind_ns:
            scores[index] = _HOST
        elif place is not None and places[place] <= few_ranks:
            scores[index] = _PLACE
    return scores


def _state(rank: SummedRank) -> tuple[object, ...]:
    """Return a rank's state or end. When many die together, the first one ends with a different message."""
    process = rank.process
    return process.state, process.exit_code, (process.exit or "")[:40]


def _stands_at(rank: SummedRank) -> tuple[object, ...] | None:
    """Return where a rank is stuck; None if it goes on."""
    span = rank.span
    if span is None or rank.process.state != "live" or rank.made_ns - span.since_ns < STANDS_S * 1e9:
        return None
    return span.phase, span.phase_name, span.loader, span.epoch, span.batch, span.steps


def scarcity(host: Columns) -> float:
    """Return how much of its scarcest resource a host has used, relative to ``SCARCE_RATIO``."""
    if not len(host["t_ns"]):
        return 0.0
    newest = {name: float(host[name][-1]) for name in _RUN_OUT}
    used = (
        1 - _part(newest["memory_available_bytes"], newest["memory_total_bytes"]),
        _part(newest["memory_used_bytes"], newest["memory_limit_bytes"]),
        _part(newest["shm_used_bytes"], newest["shm_total_bytes"]),
        1 - _part(newest["filling_disk_free_bytes"], newest["filling_disk_total_bytes"]),
    )
    return max((part for part in used if isfinite(part)), default=0.0) / SCARCE_RATIO


def _part(of: float, whole: float) -> float:
    return of / whole if whole > 0 else nan
