"""Which hosts of a large run are looked at in detail: hosts of ranks that stand out, and an even sample.

Detectors need rows, but one process cannot look at the rows of ten thousand ranks twice a second. For every
rank, sums of the last half minute (``recent_sums``) and its open span are known. If a rank differs from the
others in one of them, its whole host is looked at, because the ranks of a host share CPUs, memory and disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import inf, isfinite, nan
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import SummedRank
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.times import behind_s
from loaderwatch.server.window.recent_sums import RecentSums

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


LARGE: Final = 256
"""A run with more ranks is looked at in part."""
MOST_RANKS: Final = 128
"""How many ranks are then looked at in detail. One host with more ranks may exceed this."""
SAMPLED: Final = 64
"""How many of them, at least, are an even sample with rank 0. Statements on the whole run rely on it."""
POINTS: Final = 8
"""Hosts of this many evenly spaced ranks are sampled from the start. Eight ranks on each are enough."""
STAYS_S: Final = 60.0
"""How long a host is looked at after it last stood out, so that detectors see the consequences."""
MOST_NEW: Final = 4
"""How many hosts one look adds at most, since the rows of their last minutes are read from the store."""

_STAYING: Final = 2.0  # factor for the score of a host that is looked at, so that equals do not alternate


def is_sampled(rank: int, world_size: int, points: int) -> bool:
    """Whether a rank is one of ``points`` evenly spaced ranks."""
    return rank == 0 or rank * points // world_size != (rank - 1) * points // world_size


class Detailed:
    """The hosts of one attempt of a run that are looked at in detail."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.recent = RecentSums()  # of all ranks
        self.lacking: set[str] = set()  # chosen hosts whose past is not there yet
        self._filled: dict[str, SequenceSet] = {}  # by stream: the envelopes whose rows came with the past
        self._sampled: set[str] = set()
        self._wanted: dict[str, tuple[float, float]] = {}  # by host: until when, and its score

    def meet(self, host: str, processes: Sequence[ProcessInfo], *, late: bool = False) -> None:
        """Look at a host from now on if one of its ranks is sampled. ``late``: earlier rows were dropped."""
        if host not in self._sampled and any(
            is_sampled(p.rank, max(p.world_size, 1), POINTS) for p in processes
        ):
            self._sampled.add(host)
            if late and host not in self.hosts:
                self.lacking.add(host)
            self.hosts.add(host)

    def keeps(self, envelope: Envelope) -> bool:
        """Whether the rows of an envelope are kept, not only summed."""
        host, filled = envelope.host.name, self._filled.get(envelope.stream)
        if host not in self.hosts or host in self.lacking:
            return False
        return filled is None or envelope.seq not in filled

    def fill(self, streams: Mapping[str, str], sequences: Mapping[str, Sequence[tuple[int, int]]]) -> None:
        """Note that all lacking hosts now have their past.

        ``streams`` has each host's newest stream, ``sequences`` the envelopes in that past, by stream.
        """
        lacking_streams = {streams.get(host, "") for host in self.lacking}
        if "" in lacking_streams:  # a host that is silent since a restart uses a stream without a known host
            lacking_streams |= sequences.keys() - set(streams.values())
        for stream in lacking_streams:
            self._filled.setdefault(stream, SequenceSet()).extend(sequences.get(stream, ()))
        self.lacking = set()

    def choose(
        self,
        ranks: Sequence[SummedRank],
        wanted: Collection[int],
        now_s: float,
        scarce: Mapping[str, float] = MappingProxyType({}),
    ) -> set[str]:
        """Choose again at ``now_s`` (UTC) from all ranks of the run; return the hosts that are dropped.

        ``wanted`` are ranks that somebody asks for or that an open finding names. ``scarce`` are hosts that
        run out of something, with their scores.
        """
        sizes = Counter(rank.host for rank in ranks)
        scores = {host: scarcity for host, scarcity in scarce.items() if host in sizes}
        for rank, score in zip(ranks, standing_out(ranks).tolist(), strict=True):
            if rank.rank in wanted:
                score = inf
            if score >= 1.0:
                scores[rank.host] = max(score, scores.get(rank.host, 0.0))
        for host, score in scores.items():
            self._wanted[host] = now_s + STAYS_S, score
        self._wanted = {host: w for host, w in self._wanted.items() if w[0] > now_s and host in sizes}
        self._sample(ranks, sizes)
        order = sorted(
            self._wanted.keys() - self._sampled,
            key=lambda host: (-self._wanted[host][1] * (_STAYING if host in self.hosts else 1.0), host),
        )
        chosen = {host for host in self._sampled if host in sizes}
        ranks_left = max(MOST_RANKS - sum(sizes[host] for host in chosen), MOST_RANKS - SAMPLED)
        new_hosts_left = MOST_NEW
        for host in order:
            is_new = host not in self.hosts
            if sizes[host] > ranks_left and len(chosen) > len(self._sampled):
                break
            if is_new and not new_hosts_left:
                continue
            new_hosts_left -= is_new
            ranks_left -= sizes[host]
            chosen.add(host)
        gone = self.hosts - chosen
        self.lacking = (self.lacking | (chosen - self.hosts)) - gone
        self.hosts = chosen
        return gone

    def _sample(self, ranks: Sequence[SummedRank], sizes: Mapping[str, int]) -> None:
        """Enlarge a small sample by hosts between those that are in it, until it is large enough."""
        points, added = POINTS, 0
        while sum(sizes.get(host, 0) for host in self._sampled) < SAMPLED and points < 2 * SAMPLED:
            for rank in ranks:
                if rank.host not in self._sampled and is_sampled(
                    rank.rank, max(len(ranks), rank.rank + 1), points
                ):
                    self._sampled.add(rank.host)
                    added += 1
                    if added == MOST_NEW:
                        return
            points *= 2


def by_host(ranks: Mapping[int, str], hosts: Collection[str]) -> set[int]:
    """Return the ranks that run on some hosts."""
    return {rank for rank, host in ranks.items() if host in hosts}
