"""Where the time of a run went over all its ranks: along the critical path, if they run in lockstep."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from loaderwatch.core.answers import Clock, Share
from loaderwatch.core.threshold import threshold
from loaderwatch.core.wait_rules import EQUAL_RATIO, MIRRORED_RATIO
from loaderwatch.detect.measures.coupling import WAIT_RATIO, Coupling
from loaderwatch.detect.measures.progress import STEP_PHASES
from loaderwatch.detect.measures.time_use import (
    RECENT_S,
    Use,
    last_ns,
    open_wait_s,
    uses_of,
    waits_for_training,
)
from loaderwatch.detect.window import RankWindow, RunWindow

COUNTS_S: Final = threshold(RECENT_S / 2, "s", "chosen: an ended rank counts for most of the interval")


@dataclass(frozen=True, slots=True)
class RunUse:
    """Where the time of all ranks went in the last ``RECENT_S``. Ratios are 0 to 1, None without any data.

    ``ranks`` holds all ranks. The other fields cover ranks that are alive or ended less than ``COUNTS_S``
    ago; once none is alive, all ranks.
    """

    ranks: Mapping[int, Use]
    clock: Clock
    known_ratio: float | None  # share of the ranks' time that their devices' own events cover
    wait_ratio: float | None
    starved_ratio: float | None  # the data wait of the ranks whose device clock is known
    goodput_ratio: float | None
    steps_per_s: float | None


@dataclass(frozen=True, slots=True)
class RankSums:
    """What a rank's loop did since the attempt began, by the clock that counts."""

    batches: int
    wait_s: float
    step_s: float
    boundary_s: float  # iter(loader) and teardown
    open_s: float  # the wait or boundary that still goes on


@dataclass(frozen=True, slots=True)
class PathSums:
    """The waits of ranks in lockstep since the attempt began: in each iteration the longest of any rank."""

    iterations: int  # different ones over all ranks
    wait_s: float
    boundary_s: float  # the longest iter(loader) and the longest teardown of any rank in each epoch


def lost_s(ranks: Collection[RankSums], path: PathSums | None) -> float:
    """Return the time that was lost since the attempt began, in seconds.

    Ranks in lockstep lose time along the critical path: in each iteration all wait for the rank that lacks
    its batch longest. It need not always be the same rank. Without a ``path`` the largest loss of a rank
    counts. Without lockstep it is the mean over ranks.
    """
    own_s = [rank.wait_s + rank.boundary_s + rank.open_s for rank in ranks]
    if not own_s:
        return 0.0
    active = [rank for rank in ranks if rank.batches > 0]
    if len(active) < 2 or not _went_in_step(active):
        return sum(own_s) / len(own_s)
    most = max(rank.batches for rank in active)
    if path is None or path.iterations > (1 + EQUAL_RATIO) * most:  # the ranks did different iterations
        return max(own_s)
    return max(*own_s, path.wait_s + path.boundary_s + max(rank.open_s for rank in ranks))


def _went_in_step(ranks: Sequence[RankSums]) -> bool:
    """Whether iterations were equally long on all ranks, and long waits of one are long steps of others."""
    wait_s = np.array([rank.wait_s / rank.batches for rank in ranks])
    iteration_s = wait_s + [rank.step_s / rank.batches for rank in ranks]
    typical_s = float(np.median(iteration_s))
    if np.abs(iteration_s - typical_s).max() > EQUAL_RATIO * typical_s:
        return False
    unlike_s = float(np.ptp(wait_s))
    return unlike_s <= WAIT_RATIO * typical_s or float(np.ptp(iteration_s)) <= MIRRORED_RATIO * unlike_s


def run_use(window: RunWindow, together: Coupling | None) -> RunUse:
    """Return where the time of the run went.

    For ranks in lockstep the data wait is that of the critical path: in each iteration all wait for the rank
    that lacks its batch longest. It is at least the wait of any rank. Otherwise it is the sum over ranks.
    Goodput and speed are means.

    ``together``: the coupling over the same time; None for a single rank.
    """
    in_step = together is not None and together.in_step
    away = sorted(((_away_s(rank), number) for number, rank in window.ranks.items()), reverse=True)[:2]
    blocked_now_s = {
        number: max((away_s for away_s, other in away if other != number), default=0.0)
        for number, rank in window.ranks.items()
        if in_step and _may_be_blocked(rank)
    }
    measured = uses_of(
        list(window.ranks.values()),
        {number: rank.made_ns - int(RECENT_S * 1e9) for number, rank in window.ranks.items()},
        together.blocked if together is not None and in_step else {},
        blocked_now_s,
    )
    ranks = {number: measured[number] for number in window.ranks}
    uses = [ranks[number] for number in counted(window)]
    clocks = {use.clock for use in uses}
    # Ranks in lockstep are equally quick. Otherwise ranks with rows must not weigh more than summed ranks.
    others = (
        []
        if in_step
        else [(_number(r.steps_per_s), _part(r.worked_s, r.covered_s)) for r in window.summed.values()]
    )
    return RunUse(
        ranks=ranks,
        clock=clocks.pop() if len(clocks) == 1 else "mixed" if clocks else "loop",
        known_ratio=_known_ratio(uses),
        wait_ratio=_wait_ratio(window, together, uses),
        starved_ratio=_starved_ratio(window, together, uses),
        goodput_ratio=_mean([use.goodput_ratio for use in uses] + [goodput for _, goodput in others]),
        steps_per_s=_mean([use.steps_per_s for use in uses] + [speed for speed, _ in others]),
    )


def counted(window: RunWindow) -> list[int]:
    """Return the ranks that count for the numbers about the run in the last ``RECENT_S``."""
    live = [n for n, rank in window.ranks.items() if rank.process.state == "live"]
    if not live or len(live) == len(window.ranks):
        return list(window.ranks)
    since_ns = {n: max(rank.made_ns, window.now_ns) - int(COUNTS_S * 1e9) for n, rank in window.ranks.items()}
    return [n for n, rank in window.ranks.items() if n in live or last_ns(rank) >= since_ns[n]]


def with_open_iteration(window: RunWindow, found: Coupling, use: RunUse) -> Coupling:
    """Return the coupling including the open iteration.

    In it all ranks wait for the rank that lacks its batch longest, or all work. The same object is returned
    if the ranks are not in lockstep.
    """
    if not found.in_step or not found.shares:
        return found
    open_s = {
        number: open_wait_s(rank) if waits_for_training(rank) else 0.0
        for number, rank in window.ranks.items()
    }
    longest_s = max(open_s[share.rank] for share in found.shares)
    uses = list(use.ranks.values())
    work_s = _open_work_s(window, uses)
    done_s = max(use.wait_s + use.step_s for use in uses) - longest_s - work_s
    iteration_s = float(np.median([share.iteration_s for share in found.shares]))
    # Only the newest of quick iterations are compared; they represent the earlier ones.
    earlier = max(1.0, done_s / iteration_s) if iteration_s > 0 else found.iterations
    iterations = earlier + 1
    shares = [
        Share(
            rank=share.rank,
            iteration_s=(share.iteration_s * earlier + longest_s + work_s) / iterations,
            data_s=(share.data_s * earlier + open_s[share.rank]) / iterations,
            own_s=(share.own_s * earlier + work_s) / iterations,
            others_s=(share.others_s * earlier + longest_s - open_s[share.rank]) / iterations,
            caused_s=(share.caused_s * earlier + (longest_s if open_s[share.rank] == longest_s else 0.0))
            / iterations,
        )
        for share in found.shares
    ]
    return replace(found, shares=tuple(shares))


def _open_work_s(window: RunWindow, uses: list[Use]) -> float:
    """Return how long all ranks have been in the open step; 0 while one still waits for its batch."""
    if any(waits_for_training(rank) for rank in window.ranks.values()):
        return 0.0
    return min((use.open_step_s for use in uses), default=0.0)


def _away_s(rank: RankWindow) -> float:
    """Return for how long a rank has not come to the gradient exchange, as it was in no backward pass.

    A wait counts from the moment in which the device has nothing to do.
    """
    span = rank.span
    if span is None or not span.alive or rank.process.state != "live" or span.phase == "backward":
        return 0.0
    if span.phase in STEP_PHASES and not rank.process.has_model:  # it may be in its backward pass
        return 0.0
    return open_wait_s(rank) if span.phase == "wait" else max(0.0, (rank.made_ns - span.since_ns) / 1e9)


def _may_be_blocked(rank: RankWindow) -> bool:
    """Whether other ranks can block a rank: it is in its backward pass, or in a step without known phases."""
    span = rank.span
    if span is None or span.phase not in STEP_PHASES:
        return False
    return span.phase == "backward" or (span.phase == "step" and not rank.process.has_model)


def _wait_ratio(window: RunWindow, together: Coupling | None, uses: list[Use]) -> float | None:
    waited_s, used_s = sum(use.wait_s for use in uses), sum(use.wait_s + use.step_s for use in uses)
    if not used_s > 0:
        return None
    if together is None or not together.in_step:
        waited_s += sum(rank.waited_s for rank in window.summed.values())
        used_s += sum(rank.waited_s + rank.worked_s for rank in window.summed.values())
        return min(1.0, waited_s / used_s)
    looped_s = max(use.wait_s + use.step_s for use in uses)
    open_s = [open_wait_s(rank) for rank in window.ranks.values() if waits_for_training(rank)]
    wait_s = min(looped_s, max(open_s, default=0.0))
    done_s = max(0.0, looped_s - wait_s - _open_work_s(window, uses))
    critical = (wait_s + together.critical_ratio * done_s) / looped_s
    own = [ratio for use in uses if (ratio := use.wait_ratio) is not None]
    return min(1.0, max(critical, *own))


def _starved_ratio(window: RunWindow, together: Coupling | None, uses: list[Use]) -> float | None:
    known = [use for use in uses if use.clock != "loop"]
    if len(known) == len(uses):
        return _wait_ratio(window, together, uses)
    if together is not None and together.in_step:
        return max((ratio for use in known if (ratio := use.wait_ratio) is not None), default=None)
    used_s = sum(use.wait_s + use.step_s for use in known)
    return sum(use.wait_s for use in known) / used_s if used_s > 0 else None


def _known_ratio(uses: list[Use]) -> float | None:
    used_s = sum(use.wait_s + use.step_s for use in uses)
    if all(use.clock == "loop" for use in uses) or not used_s > 0:
        return None
    return min(1.0, sum(use.known_s for use in uses) / used_s)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _part(of_s: float, whole_s: float) -> float | None:
    return min(1.0, of_s / whole_s) if whole_s > 0 else None
