"""Where the time of many ranks goes: ``measures.time_use.use_of`` in a few passes over all ranks.

This is for ranks that do what nearly all do: the main thread iterates training loaders, and no step is so
long that it may stand still. The others, and the meaning of the results, are left to ``use_of``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import known_ns
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.device_clock import RankClock
from loaderwatch.detect.measures.time_use import (
    Blocked,
    Use,
    began_ns,
    open_step_s,
    open_wait_s,
    training_loaders,
    use_of,
    waits_for_training,
    within_s,
)
from loaderwatch.detect.rows_of_ranks import columns_from, grouped, stacked
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow, first_at, seconds

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FEW_RANKS: Final = threshold(8, "ranks", "fewer ranks are measured as quickly one by one")
_COLUMNS: Final = ("request_ns", "wait_ns", "step_ns", "optimizer_steps", "off_main_thread", "loader")
_ON_DEVICE: Final = (*_COLUMNS, "hidden_ns", "starved_ns")


class _Group:
    """Ranks with equally many batches to look at; arrays have shape (ranks, rows)."""

    def __init__(
        self,
        ranks: Sequence[RankWindow],
        parts: Sequence[Sequence[Ints]],
        blocked: Sequence[Blocked | None],
        since_ns: Sequence[int],
        inside: int,
    ) -> None:
        self.ranks = ranks
        request, wait, step, made, off_main, loader, *told = stacked(parts)
        self.request, self.wait, self.step = request, wait, step
        self.alike: NDArray[np.bool_] = np.asarray((off_main != 1).all(axis=1))
        training = training_loaders(ranks[0])
        if len(training) < len(ranks[0].process.loaders):
            self.alike &= np.isin(loader, training).all(axis=1)
        since, end = (
            np.array(times, dtype=np.int64)[:, None] for times in (since_ns, [rank.made_ns for rank in ranks])
        )
        delivered = request + known_ns(wait)
        over = delivered + known_ns(step)
        step_s, waits_s = within_s(delivered, over, since, end), within_s(request, delivered, since, end)
        whole_s = seconds(step)
        self.longest_s = np.fmax.reduce(whole_s, axis=1, initial=0.0)
        self.wait_s, self.step_s = waits_s.sum(axis=1), step_s.sum(axis=1)
        self.good_s = np.maximum(0.0, step_s - self._blocked_s(blocked, whole_s, step_s)).sum(axis=1)
        self.batches = (over > since).sum(axis=1)
        self.steps = np.where(made >= 0, made, 1)[:, inside:].sum(axis=1)
        self.on_device, self.known_s = np.zeros(len(ranks), dtype=bool), np.zeros(len(ranks))
        if told:
            hidden, starved = told
            self.on_device = (hidden != UNKNOWN).any(axis=1)
            known = (starved != UNKNOWN) & (hidden != UNKNOWN)
            self.known_s = np.where(known, waits_s + step_s, 0.0).sum(axis=1)

    def _blocked_s(self, blocked: Sequence[Blocked | None], whole_s: Floats, inside_s: Floats) -> Floats:
        """Return the part of each step in which another rank blocked it, in seconds."""
        if all(rank_blocked is None for rank_blocked in blocked):
            return np.zeros(whole_s.shape)
        request = self.request
        times, waits_s = np.full(request.shape, -1, dtype=np.int64), np.zeros(request.shape)
        rises = np.asarray((request[:, 1:] > request[:, :-1]).all(axis=1)).tolist()
        for row, rank_blocked in enumerate(blocked):
            if rank_blocked is None or not rank_blocked[0].size:
                continue
            own = request[row].data
            first = bisect_left(rank_blocked[0].data, own[0])
            count, at = (
                rank_blocked[0].size - first,
                bisect_left(own, int(rank_blocked[0][first])) if first < rank_blocked[0].size else 0,
            )
            if at + count > len(own) or not rises[row]:
                self.alike[row] = False
                continue
            times[row, at : at + count] = rank_blocked[0][first:]
            waits_s[row, at : at + count] = rank_blocked[1][first:]
        same = times == request
        self.alike &= (same | (times < 0)).all(axis=1)  # each blocked time was found among the requests
        compared = same & (whole_s > 0)
        share = np.zeros(request.shape)
        np.divide(waits_s, whole_s, out=share, where=compared)
        np.minimum(share, 1.0, out=share)
        result: Floats = share * inside_s
        known_s = np.where(compared, inside_s, 0.0).sum(axis=1)
        usual = np.divide(result.sum(axis=1), known_s, out=np.zeros(known_s.shape), where=known_s > 0)
        # Steps that were not compared get the share of the compared ones.
        result[~compared] = (usual[:, None] * inside_s)[~compared]
        return result

    def uses(self, since_ns: Sequence[int], blocked_now_s: Sequence[float]) -> list[Use | None]:
        """Return the use of each rank; None for ranks that are not like most."""
        columns = (self.alike, self.longest_s, self.wait_s, self.step_s, self.good_s)
        numbers = (self.batches, self.steps, self.on_device, self.known_s)
        rows = zip(*(column.tolist() for column in (*columns, *numbers)), strict=True)
        uses: list[Use | None] = []
        for at, (alike, longest_s, wait_s, step_s, good_s, batches, steps, on_device, known_s) in enumerate(
            rows
        ):
            rank, since = self.ranks[at], since_ns[at]
            open_whole_s = open_step_s(rank, self.request[at], self.wait[at], self.step[at])
            if not alike or max(open_whole_s, longest_s) >= Limits().hang_floor_s:
                uses.append(None)
                continue
            span_s = (rank.made_ns - since) / 1e9
            open_s = min(open_whole_s, span_s)
            if waits_for_training(rank):
                wait_s += max(0.0, min(open_wait_s(rank), span_s))
            clock: RankClock = "loop"
            if on_device:
                clock = "nvml" if rank.process.other_stream else "device"
            uses.append(
                Use(
                    clock=clock,
                    covered_s=max(0.0, (rank.made_ns - max(since, began_ns(rank))) / 1e9),
                    batches=batches,
                    steps=steps,
                    wait_s=wait_s,
                    step_s=step_s + open_s,
                    good_s=good_s + max(0.0, open_s - blocked_now_s[at]),
                    open_step_s=open_s,
                    known_s=known_s if clock == "device" else 0.0,
                )
            )
        return uses


def uses_of(
    ranks: Sequence[RankWindow],
    since_ns: Mapping[int, int],
    blocked: Mapping[int, Blocked],
    blocked_now_s: Mapping[int, float],
) -> dict[int, Use]:
    """Return where the time of each rank went, by its number; arguments by rank are as in ``use_of``."""
    use_by_rank: dict[int, Use] = {}
    firsts: dict[int, int] = {}
    keys: dict[int, tuple[int, tuple[int, tuple[int, ...], int, bool]]] = {}
    by_number = {rank.rank: rank for rank in ranks}
    for number, rank in by_number.items() if len(ranks) > FEW_RANKS else ():
        request = rank.steps["request_ns"]
        asked = first_at(request, since_ns[number])
        first = max(0, asked - 1)
        if first < request.size:
            firsts[number] = first
            training = tuple(training_loaders(rank))
            device = "hidden_ns" in rank.steps
            others = asked - first, training, len(rank.process.loaders), device
            keys[number] = request.size - first, others
    for group in grouped(keys):
        _, (inside, _, _, device) = keys[group[0]]
        names = _ON_DEVICE if device else _COLUMNS
        group_ranks = [by_number[number] for number in group]
        parts = [columns_from(rank.steps, names, firsts[rank.rank]) for rank in group_ranks]
        since = [since_ns[number] for number in group]
        uses = _Group(group_ranks, parts, [blocked.get(number) for number in group], since, inside).uses(
            since, [blocked_now_s.get(number, 0.0) for number in group]
        )
        use_by_rank.update((number, use) for number, use in zip(group, uses, strict=True) if use is not None)
    for number, rank in by_number.items():
        if number not in use_by_rank:
            use_by_rank[number] = use_of(
                rank,
                since_ns[number],
                blocked=blocked.get(number),
                blocked_now_s=blocked_now_s.get(number, 0.0),
            )
    return use_by_rank
