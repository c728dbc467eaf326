"""Input-bound: the loop stands still because no batch is there. Code ``input-bound``, S01 S02 S07 S08 S13 S14 S20 S21 S43."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from loaderwatch.detect.causes import (
    Cause,
    capacity_short,
    ready_wait_ratio,
    steady_cause,
    wait_cpu_ratio,
    warming_cause,
)
from loaderwatch.detect.cpus import Cpus, cpus_of
from loaderwatch.detect.finding import Evidence, Finding
from loaderwatch.detect.gpu_evidence import gpu_evidence
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.pace import Pace, fetch_summary, paces, recent
from loaderwatch.detect.periodicity import comb_period
from loaderwatch.detect.phrases import duration, percent, ranks_phrase, singular
from loaderwatch.detect.progress import wait_limit_s
from loaderwatch.detect.robust import mean, median, ratio
from loaderwatch.detect.spikes import find_spikes, spike_cause
from loaderwatch.detect.window import RankWindow, RunWindow

CODE = "input-bound"
SPIKE_PART = 0.6  # share of the wait inside long waits, above which the long waits are the story
SPIKE_REPEAT_RATIO = 0.05  # a spike that comes again is worth a word at half the usual share
WARMING_ROWS = 12
FIRST_EPOCH_S = 4.0  # steps of a first epoch that must have been seen, so that a trend would show
WARMING_RATIO = 0.85  # the last third of the fetches (or waits) against the first
BUCKET_NS = 5_000_000_000
STRAGGLER_EQUAL_RATIO = 0.2  # iteration times that differ less than this are the same: the ranks are coupled


@dataclass(frozen=True)
class Stall:
    """What one loader costs one rank."""

    pace: Pace  # the rows it was judged on
    cause: Cause
    cpus: Cpus
    share: float
    began_ns: int
    lost_s: float
    severity: str
    spiky: bool


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """One finding per loader and kind of wait, over all ranks."""
    groups: dict[tuple[int, bool], list[Stall]] = {}
    now: dict[int, dict[int, Pace]] = {}
    for rank in window.ranks.values():
        if rank.process.state != "live":
            continue
        cpus = cpus_of(window, rank)
        for pace in paces(rank):
            current = recent(pace, limits)
            if current is None:
                continue
            now.setdefault(pace.loader.loader, {})[rank.rank] = current
            stall = _steady(pace, current, cpus, limits) or _spiky(window, pace, cpus, limits)
            if stall is not None:
                groups.setdefault((pace.loader.loader, stall.spiky), []).append(stall)
    return [_finding(window, stalls, now[loader], limits) for (loader, _), stalls in sorted(groups.items())]


def _steady(pace: Pace, now: Pace, cpus: Cpus, limits: Limits) -> Stall | None:
    share = now.share
    if not (
        share >= limits.input_warning_ratio
        and now.lost_s >= limits.input_floor_s
        and now.lost_s / now.wait_s.size >= limits.input_step_floor_s
    ):
        return None
    newer = np.arange(now.wait_s.size) >= now.wait_s.size // 2
    if now.where(newer).share < 0.5 * limits.input_warning_ratio:
        return None  # it is over, or was only the beginning
    if _first_epoch(now) and now.total_s < FIRST_EPOCH_S:
        return None
    if capacity_short(now) is not True:
        spikes_s = sum(spike.wait_s for spike in find_spikes(now, limits))
        if spikes_s >= SPIKE_PART * now.lost_s:
            return None
    began_ns, lost_s = _began(pace, now, limits)
    cause = warming_cause(now) if _warms_up(now) else steady_cause(now, cpus)
    severity = "critical" if share >= limits.input_critical_ratio else "warning"
    if cause.scenario == "S09":
        severity = "info"
    elif cause.scenario == "S14":  # a busy machine looks like this as well, and the loader cannot help it
        severity = "warning" if severity == "critical" else "info"
    return Stall(
        pace=now,
        cause=cause,
        cpus=cpus,
        share=share,
        began_ns=began_ns,
        lost_s=lost_s,
        severity=severity,
        spiky=False,
    )


def _first_epoch(now: Pace) -> bool:
    return not bool((now.epoch > 0).any())


def _warms_up(now: Pace) -> bool:
    """The fetches of the first epoch get shorter and shorter, as when the page cache fills: no case for an alert yet."""
    if now.wait_s.size < WARMING_ROWS or now.open_wait or not _first_epoch(now):
        return False
    lately = now.fetches.began_ns >= now.request_ns[0]
    series = now.fetches.fetch_s[lately] if lately.sum() >= WARMING_ROWS else now.wait_s
    first, second, last = (median(third) for third in np.array_split(series, 3))
    return first > second > last and last < WARMING_RATIO * first


def _began(pace: Pace, now: Pace, limits: Limits) -> tuple[int, float]:
    """Since when it has been so, going back in five-second steps, and what was lost since."""
    bucket = (pace.rank.made_ns - pace.request_ns) // BUCKET_NS
    began = int(now.request_ns[0])
    oldest = int((pace.rank.made_ns - began) // BUCKET_NS)
    quiet = 0
    for index in range(oldest + 1, int(bucket.max(initial=0)) + 1):
        rows = bucket == index
        if not rows.any():
            quiet += 1
        elif pace.where(rows).share >= limits.input_warning_ratio:
            began, quiet = int(pace.request_ns[rows].min()), 0
        else:
            break
        if quiet > 1:
            break
    return began, pace.since(began).lost_s


def _spiky(window: RunWindow, pace: Pace, cpus: Cpus, limits: Limits) -> Stall | None:
    if not pace.workers or capacity_short(pace) is True:
        return None
    began_ns = pace.rank.made_ns - int(limits.spike_recent_s * 1e9)
    spikes = find_spikes(pace, limits)
    limit_s = wait_limit_s(pace.rank, pace.loader.loader, limits)
    spikes = [spike for spike in spikes if spike.wait_s < limit_s]  # beyond that it was reported as a hang
    late = [spike for spike in spikes if spike.request_ns + spike.wait_s * 1e9 >= began_ns]
    if not late:
        return None
    lost_s = sum(spike.wait_s for spike in late)
    share = min(1.0, ratio(lost_s, max(limits.spike_recent_s, 1e-9)))
    repeated = len(spikes) >= 2
    whole_s = max(limits.spike_recent_s, (pace.rank.made_ns - int(pace.request_ns[0])) / 1e9)
    all_share = sum(spike.wait_s for spike in spikes) / whole_s
    if late[-1].open and len(late) == 1:
        severity = "info"  # it may end soon, or turn out to be a hang
    elif share >= limits.input_critical_ratio and repeated:
        severity = "critical"
    elif share >= limits.input_warning_ratio or (repeated and all_share >= SPIKE_REPEAT_RATIO):
        severity = "warning"
    else:
        severity = "info"
    if severity == "info" and lost_s < 1.0:
        return None
    return Stall(
        pace=pace,
        cause=spike_cause(pace, spikes),
        cpus=cpus,
        share=max(share, all_share),
        began_ns=min(spike.request_ns for spike in spikes),
        lost_s=sum(spike.wait_s for spike in spikes),
        severity=severity,
        spiky=True,
    )


def _finding(window: RunWindow, stalls: Sequence[Stall], now: dict[int, Pace], limits: Limits) -> Finding:
    worst = max(stalls, key=lambda stall: stall.lost_s)
    rank, loader, cause = worst.pace.rank, worst.pace.loader, worst.cause
    ranks = sorted(stall.pace.rank.rank for stall in stalls)
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
