"""Input-bound: the loop stands still because no batch is there. Code ``input-bound``, S01 to S21 and S43."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from loaderwatch.detect.causes import ready_wait_ratio, wait_cpu_ratio
from loaderwatch.detect.cpus import cpus_of
from loaderwatch.detect.dispatch import as_dispatch
from loaderwatch.detect.finding import Evidence, Finding
from loaderwatch.detect.gpu_evidence import gpu_evidence
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.pace import QUIET_RATIO, Pace, fetch_summary, paces, recent, wait_share
from loaderwatch.detect.periodicity import comb_period
from loaderwatch.detect.phrases import duration, percent, ranks_phrase, singular
from loaderwatch.detect.robust import mean
from loaderwatch.detect.stalls import Stall, spiky_stall, steady_stall
from loaderwatch.detect.window import RankWindow, RunWindow

CODE = "input-bound"
MOST_ANALYSED = 48  # ranks looked at closely; the worst first
MOST_WITNESSES = 32
STRAGGLER_EQUAL_RATIO = 0.2  # iteration times that differ less than this are the same: the ranks are coupled


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """One finding per loader and kind of wait, over all ranks."""
    live = [rank for rank in window.ranks.values() if rank.process.state == "live"]
    waiting = {rank.rank: wait_share(rank, limits) for rank in live}
    loud = sorted(
        (rank for rank in live if waiting[rank.rank] >= QUIET_RATIO), key=lambda rank: -waiting[rank.rank]
    )
    quiet = [rank for rank in live if waiting[rank.rank] < QUIET_RATIO]
    groups: dict[tuple[int, bool], list[Stall]] = {}
    now: dict[int, dict[int, Pace]] = {}
    for rank in loud[:MOST_ANALYSED]:
        cpus = cpus_of(window, rank)
        for pace in paces(rank):
            current = recent(pace, limits)
            if current is None:
                continue
            now.setdefault(pace.loader.loader, {})[rank.rank] = current
            stall = steady_stall(window, pace, current, cpus, limits) or spiky_stall(pace, cpus, limits)
            if stall is not None:
                groups.setdefault((pace.loader.loader, stall.spiky), []).append(stall)
    if groups:
        _call_witnesses(quiet[:MOST_WITNESSES], now, limits)
    # Ranks beyond those looked at closely: as many wait as much, and one finding speaks for all.
    more = [rank.rank for rank in loud[MOST_ANALYSED:] if waiting[rank.rank] >= limits.input_warning_ratio]
    findings = [
        _finding(window, stalls, now[loader], [] if spiky else more)
        for (loader, spiky), stalls in sorted(groups.items())
    ]
    return as_dispatch(window, findings, [stall for stalls in groups.values() for stall in stalls])


def _call_witnesses(quiet: Sequence[RankWindow], now: dict[int, dict[int, Pace]], limits: Limits) -> None:
    """Add the pace of ranks that do not wait themselves: they show whether they wait for a straggler."""
    for rank in quiet:
        for pace in paces(rank):
            current = recent(pace, limits)
            if current is not None:
                now.setdefault(pace.loader.loader, {})[rank.rank] = current


def _finding(window: RunWindow, stalls: Sequence[Stall], now: dict[int, Pace], more: list[int]) -> Finding:
    worst = max(stalls, key=lambda stall: stall.lost_s)
    rank, loader, cause = worst.pace.rank, worst.pace.loader, worst.cause
    ranks = sorted([stall.pace.rank.rank for stall in stalls] + more)
    world = _world_size(window)
    kind = "spikes" if worst.spiky else "steady"
    finding = Finding(
        key=f"{CODE}:{loader.loader}:{kind}",
        code=CODE,
        scenario=cause.scenario,
        severity=worst.severity,
        confidence=cause.confidence,
        began_ns=min(stall.began_ns for stall in stalls),
        title=_title(worst, ranks, world),
        cause=cause.cause,
        advice=cause.advice,
        evidence=[*_evidence(worst), *cause.evidence],
        rank=rank.rank if len(ranks) < world or world <= 1 or worst.spiky else None,
        host=rank.host,
        worker=cause.worker,
        pid=cause.pid,
        sample_indices=cause.sample_indices,
        lost_s=worst.lost_s,
        gain_ceiling_ratio=cause.gain_ceiling_ratio,
    )
    if not worst.spiky and len(ranks) == 1 and world > 1:
        return _as_straggler(finding, worst, now) or finding
    return finding


def _world_size(window: RunWindow) -> int:
    return max([len(window.ranks), *(rank.process.world_size for rank in window.ranks.values())])


def _title(stall: Stall, ranks: list[int], world: int) -> str:
    who = ranks_phrase([stall.pace.rank.rank] if stall.spiky else ranks, world)
    if stall.spiky:
        return f"{who} lost {duration(stall.lost_s)} waiting for data: {stall.cause.because}."
    one = singular(ranks, world)
    return (
        f"{who} {'loses' if one else 'lose'}{'' if one else ' up to'} {percent(stall.share)} of"
        f" {'its' if one else 'their'} time waiting for data: {stall.cause.because}."
    )


def _evidence(stall: Stall) -> list[Evidence]:
    pace, cpus = stall.pace, stall.cpus
    typical_s, _, late_s = fetch_summary(pace.fetches)
    ready = pace.ready[pace.ready >= 0]
    values: list[tuple[str, float | int | str | None, str]] = [
        ("data wait", stall.share, "ratio"),
        ("wait per batch", mean(pace.wait_s), "s"),
        ("step without the wait", pace.mean_step_s, "s"),
        ("batches per second", 1 / pace.iteration_s if pace.iteration_s > 0 else math.nan, "per_s"),
        ("fetch time of a worker, median", typical_s, "s"),
        ("fetch time of a worker, 99th percentile", late_s, "s"),
        ("CPU use of a worker while it reads", pace.fetches.cpu_ratio, "ratio"),
        ("batches ready when the wait began", float(ready.mean()) if ready.size else math.nan, "count"),
        ("wait although a batch was ready", ready_wait_ratio(pace) if ready.size else math.nan, "ratio"),
        ("CPU use of the training thread during the wait", wait_cpu_ratio(pace), "ratio"),
        ("workers", pace.workers, "count"),
        ("usable CPUs", cpus.usable, "count"),
        ("free CPUs", cpus.free, "count"),
    ]
    period = comb_period(pace.wait_s, pace.workers or 1)
    if period:
        values.append(("a long wait every so many batches", period, "count"))
    known = [
        Evidence(label=label, value=value, unit=unit)
        for label, value, unit in values
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    ]
    return [*known, *gpu_evidence(pace)]


def _as_straggler(finding: Finding, culprit: Stall, now: dict[int, Pace]) -> Finding | None:
    """The same finding as S43 when the other ranks wait for this one: equal iterations, mirrored wait and step.

    In data-parallel training all ranks take equally long; the one that waits for data computes briefly, the others
    compute (that is, sit in the gradient exchange) as much longer.
    """
    rank = culprit.pace.rank.rank
    others = {other: pace for other, pace in now.items() if other != rank}
    if not others:
        return None
    wait_s, iteration_s = mean(culprit.pace.wait_s), culprit.pace.iteration_s
    for pace in others.values():
        coupled = abs(pace.iteration_s - iteration_s) <= STRAGGLER_EQUAL_RATIO * iteration_s
        mirrored = pace.mean_step_s - culprit.pace.mean_step_s >= 0.5 * wait_s
        if not (coupled and mirrored and pace.share < 0.5 * culprit.share):
            return None
    many = len(others) > 1
    their = f"the other {len(others)} ranks wait" if many else f"rank {next(iter(others))} waits"
    theirs_s = float(np.mean([pace.mean_step_s for pace in others.values()]))
    backward_s = mean(np.array([_backward_s(pace.rank) for pace in others.values()]))
    in_backward = f", {duration(backward_s)} of it in backward" if backward_s >= 0.4 * theirs_s else ""
    extra = [
        Evidence(label=f"step of the other {'ranks' if many else 'rank'}", value=theirs_s, unit="s"),
        Evidence(
            label="data wait of the others", value=max(pace.share for pace in others.values()), unit="ratio"
        ),
    ]
    return msgspec.structs.replace(
        finding,
        scenario="S43",
        confidence=max(finding.confidence, 0.85) if finding.confidence >= 0.7 else finding.confidence,
        title=f"Rank {rank} waits {duration(wait_s)} for data in each iteration, and {their} for rank {rank}:"
        f" {culprit.cause.because}.",
        cause=f"All ranks take {duration(iteration_s)} per iteration, but only rank {rank} spends it waiting for data"
        f" ({percent(culprit.share)}). The others spend {duration(theirs_s)} in their step{in_backward}, where"
        f" rank {rank} needs {duration(culprit.pace.mean_step_s)}: they wait for its gradients. {culprit.cause.cause}",
        advice=f"Mend rank {rank} on {culprit.pace.rank.host}. {culprit.cause.advice}",
        evidence=[*finding.evidence, *extra],
    )


def _backward_s(rank: RankWindow) -> float:
    values = rank.table("steps")["backward_ns"]
    values = values[values > 0][-50:]
    return float(values.mean()) / 1e9 if values.size else math.nan
