"""Coupling: which rank waits for which, iteration by iteration, while the run makes progress.

In data-parallel training all iterations take equally long: a rank that comes late to the gradient exchange
makes the others wait there. Only durations are compared, never times of different hosts. There are two
sources; the first is used if it finds more:

measured
    The time that each rank spent in its DDP model's own collectives (``steps.collective_ns``). The last rank
    spends least there: this is the cost of the exchange itself. What the others spend beyond it is their
    wait. If the device's clock is known, a wait in which the GPU worked on queued work does not count.
durations
    Iterations are equally long on all ranks. So a rank that waits less for its loader sits as much longer in
    its step. This also holds with NCCL, where the GPU waits and not the thread.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import CouplingState, Param, Share, Text
from loaderwatch.core.columns import Columns
from loaderwatch.core.threshold import threshold
from loaderwatch.core.wait_rules import EQUAL_RATIO, LEAST_ITERATIONS, MIRRORED_RATIO
from loaderwatch.detect.device_clock import gpu_step_of, slack_of
from loaderwatch.detect.finding import who
from loaderwatch.detect.measures.statistics import Floats, mean
from loaderwatch.detect.rows_of_ranks import columns_from, grouped, stacked
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow, first_at, one_of, seconds

STRETCHED_TO: Final = threshold(32, "iterations", "chosen: slow iterations extend the interval to so many")
MOST_ITERATIONS: Final = threshold(400, "iterations", "chosen: limits the comparison of quick iterations")
WAIT_RATIO: Final = threshold(0.1, "ratio", "chosen: a wait below this share of an iteration is noise")
WAIT_FLOOR_S: Final = threshold(0.002, "s", "chosen: as WAIT_RATIO, where iterations are short")
BLAMED_RATIO: Final = threshold(
    0.75, "ratio", "chosen: a rank, or a few, are named if they caused three quarters of all waiting"
)
LATE_RATIO: Final = threshold(
    0.1, "ratio", "chosen: a rank that waits less than this share of an iteration's longest wait came late"
)
MOST_WITNESSES: Final = threshold(32, "ranks", "chosen: limits the ranks whose phases are compared")
FEW_RATIO: Final = threshold(0.25, "ratio", "chosen: at most this share of all ranks may be named together")
Source: TypeAlias = Literal["measured", "durations"]
COMPARED_PHASES: Final = ("forward", "backward", "optimizer", "other")
_COMPARED: Final = (
    "loader",
    "epoch",
    "batch",
    "off_main_thread",
    "request_ns",
    "wait_ns",
    "step_ns",
    "collective_ns",
)
_WITH_PHASES: Final = (*_COMPARED, "forward_ns", "backward_ns", "optimizer_ns")


@dataclass(frozen=True)
class Coupling:
    """Which rank waits for which, over the recent iterations that all ranks have done.

    ``state``: "waiting", all wait for ``waited_for``; "turns", they wait for different ranks in turn; "even",
    nobody waits for long; "apart", the ranks are not in lockstep; "unknown", see ``reason``.
    """

    state: CouplingState
    reason: Text | None = None
    source: Source | None = None
    iterations: int = 0
    shares: tuple[Share, ...] = ()
    waited_for: tuple[int, ...] = ()
    wait_s: float = math.nan  # of the ranks that wait, per iteration
    cause: Literal["data", "work"] | None = None  # what delays the ranks that are waited for
    where: str | None = None  # the phase with most of the wait
    waiting: tuple[int, ...] = ()
    # Share of an iteration in which the rank that all wait for lacks its batch.
    critical_ratio: float = math.nan
    # By rank: its requests, ns UTC in order, and the seconds for which it waited for other ranks after each.
    blocked: Mapping[int, tuple[NDArray[np.int64], Floats]] = field(default_factory=dict, compare=False)

    @property
    def in_step(self) -> bool:
        """Whether the ranks' iterations are equally long, so that all wait for the last rank."""
        return math.isfinite(self.critical_ratio)

    def share(self, rank: int) -> Share:
        """Return one rank's part in an iteration, in seconds.

        Raises:
            KeyError: the rank is not in ``shares``.
        """
        for share in self.shares:
            if share.rank == rank:
                return share
        raise KeyError(rank)


@dataclass(frozen=True)
class _Steps:
    """The newest steps of one rank; ``key`` identifies the iteration of a row, equally on all ranks."""

    rank: int
    key: NDArray[np.int64]
    request_ns: NDArray[np.int64]
    data_s: Floats
    step_s: Floats
    collective_s: Floats
    phases: tuple[NDArray[np.int64], ...]  # forward, backward, optimizer
    device: Columns  # what the device reports about these and other steps
    rows: Sequence[int]  # numbers of these rows among the rank's steps; () after rows were chosen by key

    def since(self, row: int) -> _Steps:
        """Return the steps from a row of the rank's steps on."""
        first = bisect_left(self.rows, row)
        return replace(self._chosen(self.key[first:], slice(first, None)), rows=self.rows[first:])

    def at(self, keys: NDArray[np.int64]) -> _Steps:
        """Return the steps with these keys, in that order; a repeated batch counts once."""
        if np.array_equal(self.key, keys):
            return self
        rows: slice | NDArray[np.intp]
        begin = first_at(self.key, int(keys[0])) if _rises(self.key) else 0
        if np.array_equal(self.key[begin : begin + keys.size], keys):
            rows = slice(begin, begin + keys.size)
        else:
            unique, first = np.unique(self.key, return_index=True)
            rows = first[np.searchsorted(unique, keys)]
        return self._chosen(keys, rows)

    def _chosen(self, keys: NDArray[np.int64], rows: slice | NDArray[np.intp]) -> _Steps:
        return _Steps(
            self.rank,
            keys,
            self.request_ns[rows],
            self.data_s[rows],
            self.step_s[rows],
            self.collective_s[rows],
            tuple(values[rows] for values in self.phases),
            self.device,
            (),
        )


class Comparison:
    """The newest steps of ranks, for comparisons over intervals of up to ``recent_s`` of these limits."""

    def __init__(self, ranks: Sequence[RankWindow], limits: Limits) -> None:
        self._ranks = list(ranks)
        self._limits = limits
        self._kept: dict[float, Coupling] = {}

    @cached_property
    def _steps(self) -> list[_Steps]:
        return _steps(self._ranks, self._limits)

    def over(self, limits: Limits) -> Coupling:
        """Return which rank waits for which in the last ``recent_s`` of ``limits``."""
        if limits.recent_s not in self._kept:
            self._kept[limits.recent_s] = self._compared(limits)
        return self._kept[limits.recent_s]

    def _compared(self, limits: Limits) -> Coupling:
        if len(self._ranks) < 2:
            return Coupling("unknown", Text("coupling-of-few-ranks"))
        steps_of_ranks = self._steps
        if limits.recent_s < self._limits.recent_s:
            steps_of_ranks = [
                steps.since(_first_row(rank, limits))
                for rank, steps in zip(self._ranks, steps_of_ranks, strict=True)
            ]
        return _coupling(steps_of_ranks)


def _coupling(found: list[_Steps]) -> Coupling:
    keys = _common([steps.key for steps in found])
    if keys.size < LEAST_ITERATIONS:
        without = [steps.rank for steps in found if steps.key.size < LEAST_ITERATIONS]
        if without:
            params: dict[str, Param] = {**who(without, len(found)), "least": LEAST_ITERATIONS}
            return Coupling("unknown", Text("coupling-of-few-steps", params))
        return Coupling("unknown", Text("coupling-of-other-batches"))
    return _compare([steps.at(keys) for steps in found])


def _steps(ranks: list[RankWindow], limits: Limits) -> list[_Steps]:
    """Return the newest steps of each rank, in the order of the ranks."""
    firsts = {rank.rank: _first_row(rank, limits) for rank in ranks}
    by_number = {rank.rank: rank for rank in ranks}
    sizes = {n: (rank.steps["request_ns"].size - firsts[n], None) for n, rank in by_number.items()}
    steps_by_rank: dict[int, _Steps] = {}
    for group in grouped(sizes):
        members = [by_number[n] for n in group]
        parts = [columns_from(rank.steps, _WITH_PHASES, firsts[rank.rank]) for rank in members]
        columns = dict(zip(_COMPARED, stacked([part[: len(_COMPARED)] for part in parts]), strict=True))
        wait_ns, step_ns = columns["wait_ns"], columns["step_ns"]
        usable = (columns["off_main_thread"] != 1) & (wait_ns >= 0) & (step_ns >= 0)
        usable &= columns["batch"] > 0  # the first wait of an epoch contains the start of its workers
        key = (columns["loader"] << 56) | (columns["epoch"] << 36) | columns["batch"]
        data_s, step_s, collective_s = wait_ns / 1e9, step_ns / 1e9, seconds(columns["collective_ns"])
        for at, rank in enumerate(members):
            own = usable[at] & one_of(columns["loader"][at], _training(rank))
            first = firsts[rank.rank]
            worked_on = _worked_on(rank.steps, first)
            chosen: NDArray[np.bool_] | slice = slice(None) if own.all() else own
            spent_s = collective_s[at]
            steps_by_rank[rank.rank] = _Steps(
                rank.rank,
                key[at][chosen],
                columns["request_ns"][at][chosen],
                data_s[at][chosen],
                step_s[at][chosen],
                (spent_s if worked_on is None else np.where(worked_on, 0.0, spent_s))[chosen],
                tuple(values[chosen] for values in parts[at][len(_COMPARED) :]),
                rank.table("gpu_waits"),
                range(first, first + own.size)
                if isinstance(chosen, slice)
                else (first + np.flatnonzero(own)).tolist(),
            )
    return [steps_by_rank[rank.rank] for rank in ranks]


def _training(rank: RankWindow) -> list[int]:
    return [loader.loader for loader in rank.process.loaders if loader.role == "train"]


def _first_row(rank: RankWindow, limits: Limits) -> int:
    """Return the row of a rank's steps at which the comparison begins."""
    request_ns = rank.steps["request_ns"]
    first = first_at(request_ns, rank.made_ns - int(limits.recent_s * 1e9))
    return max(0, min(first, request_ns.size - STRETCHED_TO), request_ns.size - MOST_ITERATIONS)


def _worked_on(table: Columns, first: int) -> NDArray[np.bool_] | None:
    """Return in which steps from a row on the GPU surely had work all the time, shape (steps,).

    At the request after such a step, the GPU has at least a whole step of work left. So part of that work was
    queued before the step. None if no device clock is known.
    """
    if "slack_ns" not in table:
        return None
    slack_ns, gpu_step_ns, loader = (
        values[first:] for values in (slack_of(table), gpu_step_of(table), table["loader"])
    )
    worked_on = np.zeros(slack_ns.size, dtype=np.bool_)
    worked_on[:-1] = (gpu_step_ns[:-1] > 0) & (slack_ns[1:] >= gpu_step_ns[:-1]) & (loader[1:] == loader[:-1])
    return worked_on


def _common(keys: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the keys of the iterations that every rank has done, oldest first."""
    rising = [key if _rises(key) else np.unique(key) for key in keys]
    if all(np.array_equal(key, rising[0]) for key in keys):
        return rising[0]
    values, counts = np.unique(np.concatenate(rising), return_counts=True)
    common: NDArray[np.int64] = values[counts == len(keys)]
    return common


def _rises(key: NDArray[np.int64]) -> bool:
    """Whether the keys are in order without repeats, as with a single loader."""
    return bool((key[1:] > key[:-1]).all())


def _compare(ranks: list[_Steps]) -> Coupling:
    data_s = np.stack([steps.data_s for steps in ranks])
    step_s = np.stack([steps.step_s for steps in ranks])
    collective_s = np.stack([steps.collective_s for steps in ranks])
    iteration_s = (data_s + step_s).mean(axis=1)
    typical_s = float(np.median(iteration_s))
    if np.abs(iteration_s - typical_s).max() > EQUAL_RATIO * typical_s:
        quick, slow = int(iteration_s.argmin()), int(iteration_s.argmax())
        params: dict[str, Param] = {
            "quick": ranks[quick].rank,
            "quick_s": float(iteration_s[quick]),
            "slow": ranks[slow].rank,
            "slow_s": float(iteration_s[slow]),
        }
        return Coupling(
            "apart",
            Text("ranks-out-of-step", params),
            iterations=data_s.shape[1],
            shares=_shares(ranks, data_s, step_s, np.zeros_like(data_s)),
        )
    source: Source = "durations"
    wait_s = np.minimum(data_s.max(axis=0) - data_s, step_s)
    if np.isfinite(collective_s).all():
        measured_s = collective_s - collective_s.min(axis=0)
        if measured_s.mean(axis=1).max() >= MIRRORED_RATIO * wait_s.mean(axis=1).max():
            wait_s, source = measured_s, "measured"
    shares = _shares(ranks, data_s, step_s, wait_s)
    critical_ratio = min(1.0, float(data_s.max(axis=0).mean()) / typical_s) if typical_s > 0 else math.nan
    base = Coupling(
        "even",
        source=source,
        iterations=data_s.shape[1],
        shares=shares,
        critical_ratio=critical_ratio,
        blocked={steps.rank: (steps.request_ns, own_s) for steps, own_s in zip(ranks, wait_s, strict=True)},
    )
    caused_s = np.array([share.caused_s for share in shares])
    if caused_s.sum() < max(WAIT_FLOOR_S, WAIT_RATIO * typical_s):
        return base
    order = np.argsort(-caused_s, kind="stable")
    many = int(np.searchsorted(np.cumsum(caused_s[order]), BLAMED_RATIO * caused_s.sum())) + 1
    late, early = order[:many], order[many:]
    if many > max(1, int(FEW_RATIO * len(ranks))):
        return replace(base, state="turns", wait_s=float(wait_s.mean()))
    excess_s = float(data_s[late].mean() - np.median(data_s[early].mean(axis=1)))
    mean_wait_s = float(np.median(wait_s[early].mean(axis=1)))
    if source == "durations" and step_s[early].mean() - step_s[late].mean() < MIRRORED_RATIO * excess_s:
        return replace(
            base,
            state="apart",
            reason=Text("waits-not-mirrored"),
            shares=(),
            critical_ratio=math.nan,
        )
    return replace(
        base,
        state="waiting",
        waited_for=tuple(sorted(ranks[at].rank for at in late)),
        waiting=tuple(sorted(ranks[at].rank for at in early)),
        wait_s=mean_wait_s,
        cause="data" if excess_s >= MIRRORED_RATIO * mean_wait_s else "work",
        where=_where([ranks[at] for at in late], [ranks[at] for at in early]),
    )


def _shares(ranks: list[_Steps], data_s: Floats, step_s: Floats, wait_s: Floats) -> tuple[Share, ...]:
    """Return each rank's part in an iteration; the arrays are seconds, shape (ranks, iterations).

    The rank that waits least in an iteration caused its wait. Ranks that wait equally little share it.
    """
    late = wait_s <= LATE_RATIO * wait_s.max(axis=0)
    # What one of the other ranks loses.
    lost_s = np.where(late, 0.0, wait_s).sum(axis=0) / np.maximum(1, (~late).sum(axis=0))
    caused_s = late * (lost_s / late.sum(axis=0))
    parts = (data_s + step_s, data_s, step_s - wait_s, wait_s, caused_s)
    names = ("iteration_s", "data_s", "own_s", "others_s", "caused_s")
    means = np.stack([part.mean(axis=1) for part in parts], axis=1).tolist()
    return tuple(
        Share(rank=steps.rank, **dict(zip(names, row, strict=True)))
        for steps, row in zip(ranks, means, strict=True)
    )


def _where(late: list[_Steps], early: list[_Steps]) -> str | None:
    """Return the phase that is longer by most on the ranks that wait; None if phases are unknown.

    The device's clock is used if known for all: by the loop's clock a phase takes as long as its launches.
    """
    early, late = early[:MOST_WITNESSES], late[:MOST_WITNESSES]
    on_device = _device_means(early) - _device_means(late)
    longer = on_device if np.isfinite(on_device).all() else _phase_means(early) - _phase_means(late)
    if not math.isfinite(longer[COMPARED_PHASES.index("backward")]):
        return None
    return COMPARED_PHASES[int(np.nanargmax(longer))]


def _device_means(ranks: list[_Steps]) -> Floats:
    """Return the device's mean seconds in each of ``COMPARED_PHASES``, shape (4,); NaN if a rank has none."""
    means_of_ranks = []
    for steps in ranks:
        waits = steps.device
        mine = (waits["gpu_backward_ns"] > 0) & np.isin(waits["request_ns"], steps.request_ns)
        known = [mean(seconds(waits[f"gpu_{name}_ns"][mine])) for name in COMPARED_PHASES[:-1]]
        means_of_ranks.append([*known, mean(seconds(waits["gpu_step_ns"][mine])) - float(np.nansum(known))])
    means: Floats = np.array(means_of_ranks).mean(axis=0)
    return means


def _phase_means(ranks: list[_Steps]) -> Floats:
    """Return the mean seconds of each of ``COMPARED_PHASES``, shape (4,)."""
    means_of_ranks = []
    for steps in ranks:
        known = [mean(seconds(values)) for values in steps.phases]
        means_of_ranks.append([*known, mean(steps.step_s) - float(np.nansum(known))])
    means: Floats = np.array(means_of_ranks).mean(axis=0)
    return means
