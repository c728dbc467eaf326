"""Which ranks of a run stand out: by how they spent the last half minute, by their state, or by where they stand."""

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
"""How many median deviations from the median a rank is off that stands out. Of a normal distribution that is four standard
deviations: one of 16,000 ranks is that far off by chance."""
RATIO_FLOOR: Final = 0.1
"""By how much a share (of data wait, of utilization) is off that stands out, where ranks hardly differ otherwise."""
TIME_FLOOR: Final = 0.1
"""By which part of the median a time is off that stands out, likewise."""
STANDS_S: Final = 3.0
"""A rank stands that has been in the same phase for so long."""
BEHIND_S: Final = 5.0
"""A host is behind of which nothing newer was heard for so long, where streams send often."""
FEW: Final = 0.05
"""Ranks stand out that stand where at most this share of all does."""
SCARCE_RATIO: Final = 0.7
"""A host is worth a look of whose memory, shared memory, or disk that fills so much is gone. What is foretold earlier, a leak at its
beginning, is foretold later there."""
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
"""A dead rank comes before a silent host, and that before one that stands."""


def standing_out(ranks: Sequence[SummedRank]) -> Floats:
    """Return for each rank of a run how far it is off the others, shape (ranks,); from 1 on it stands out."""
    if not ranks:
        return np.zeros(0)
    batches = np.array([rank.batches for rank in ranks])
    waited, worked, forward, backward = (
        np.array([getattr(rank, name) for rank in ranks])
        for name in ("waited_s", "worked_s", "forward_s", "backward_s")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        found = [
            off(waited / (waited + worked), RATIO_FLOOR, 0.0),
            off(np.array([rank.utilization_ratio for rank in ranks]), RATIO_FLOOR, 0.0),
            *(
                off(taken / batches, 0.0, TIME_FLOOR)
                for taken in (waited + worked, worked, forward, backward)
            ),
        ]
    most: Floats = np.maximum.reduce([*found, _places(ranks)])
    return most


def off(values: Floats, floor: float, floor_ratio: float) -> Floats:
    """Return how many times as far from the median values are as those of ranks that do not stand out, shape (ranks,).

    0 where a value is not known. How far is usual is ``SPREAD`` median deviations, a ``floor`` and a part of the median.
    """
    known = np.isfinite(values)
    if known.sum() < 2:
        return np.zeros(len(values))
    median = float(np.median(values[known]))
    apart = np.abs(values - median)
    usual = SPREAD * float(np.median(apart[known])) + floor + floor_ratio * median
    return np.where(known, apart / usual, 0.0) if usual > 0 else np.zeros(len(values))


def _places(ranks: Sequence[SummedRank]) -> Floats:
    """Return how much ranks stand out by their state, their host's silence, or where they stand."""
    states = Counter(_state(rank) for rank in ranks)
    newest_ns = max(rank.made_ns for rank in ranks)
    behind_ns = behind_s(len(ranks), BEHIND_S) * 1e9
    few = max(1.0, FEW * len(ranks))
    stands = [_stands_at(rank) for rank in ranks]
    places = Counter(place for place in stands if place is not None)
    found = np.zeros(len(ranks))
    for at, (rank, place) in enumerate(zip(ranks, stands, strict=True)):
        if states[_state(rank)] <= min(few, len(ranks) / 2):
            found[at] = _STATE
        elif rank.process.state == "live" and newest_ns - rank.made_ns > behind_ns:
            found[at] = _HOST
        elif place is not None and places[place] <= few:
            found[at] = _PLACE
    return found


def _state(rank: SummedRank) -> tuple[object, ...]:
    """Return how a rank is or how it ended: of many that die together, the one that began it has other last words."""
    process = rank.process
    return process.state, process.exit_code, (process.exit or "")[:40]


def _stands_at(rank: SummedRank) -> tuple[object, ...] | None:
    """Return where a rank stands; None while it goes on."""
    span = rank.span
    if span is None or rank.process.state != "live" or rank.made_ns - span.since_ns < STANDS_S * 1e9:
        return None
    return span.phase, span.phase_name, span.loader, span.epoch, span.batch, span.steps


def scarcity(host: Columns) -> float:
    """Return how much of what a host can run out of is gone, in terms of what is worth a look; from 1 on it is."""
    if not len(host["t_ns"]):
        return 0.0
    newest = {name: float(host[name][-1]) for name in _RUN_OUT}
    gone = (
        1 - _part(newest["memory_available_bytes"], newest["memory_total_bytes"]),
        _part(newest["memory_used_bytes"], newest["memory_limit_bytes"]),
        _part(newest["shm_used_bytes"], newest["shm_total_bytes"]),
        1 - _part(newest["filling_disk_free_bytes"], newest["filling_disk_total_bytes"]),
    )
    return max((part for part in gone if isfinite(part)), default=0.0) / SCARCE_RATIO


def _part(of: float, whole: float) -> float:
    return of / whole if whole > 0 else nan
