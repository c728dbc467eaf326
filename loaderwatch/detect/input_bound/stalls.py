"""What one loader costs one rank: whether it is a stall at all, since when, of which kind and cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.ranking import refined_cause
from loaderwatch.detect.input_bound.spikes import Spike, find_spikes, spike_cause, spike_mask
from loaderwatch.detect.input_bound.worker_causes import (
    capacity_short,
    hands_over,
    warming_cause,
)
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.machine import Cpus, machine_of
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.progress import wait_limit_s
from loaderwatch.detect.measures.statistics import median, ratio, trend
from loaderwatch.detect.measures.step_change import may_be_changing, step_change
from loaderwatch.detect.window import RunWindow

SPIKE_PART = 0.6  # share of the wait inside long waits, above which the long waits are the story
AGAIN_AND_AGAIN = 5
SPIKE_REPEAT_RATIO = 0.05  # a spike that comes again is worth a word at half the usual share
WARMING_ROWS = 12
FIRST_EPOCH_S = (
    4.0  # steps of a first epoch that must have been seen, so that a trend of the workers would show
)
WARMING_RATIO = 0.85  # the last third of the fetches (or waits) against the first
WARMING_TREND = 0.5  # rank correlation with their order; single late ones hardly change it
WARMING_SIGMAS = 3.0  # of the correlation of as many values that vary without a trend, 1 / sqrt(n - 1)
MAY_WARM_UP = ("S01", "S02", "S08")  # what waits for storage; no cache gives workers that compute more CPU
RECENT_ROUNDS = 2
OVER_RATIO = (
    0.5  # the newer half of the rows against the limit, or against the older half: less is a stall no more
)
BUCKET_NS = 5_000_000_000


@dataclass(frozen=True)
class Stall:
    """What one loader costs one rank."""

    pace: Pace  # the rows it was judged on
    cause: Explanation
    cpus: Cpus
    share: float
    began_ns: int
    lost_s: float
    severity: str
    spiky: bool


def steady_stall(window: RunWindow, pace: Pace, now: Pace, cpus: Cpus, limits: Limits) -> Stall | None:
    """A wait that recurs at every step or every few steps, judged on ``now``; None when it is none."""
    share = now.share
    if not (
        share >= limits.input_warning_ratio
        and now.lost_s >= limits.input_floor_s
        and now.lost_s / now.wait_s.size >= limits.input_step_floor_s
    ):
        return None
    newer = np.arange(now.wait_s.size) >= now.wait_s.size // 2
    lately, before = now.where(newer).share, now.where(~newer).share
    if lately < max(
        OVER_RATIO * limits.input_warning_ratio, min(limits.input_warning_ratio, OVER_RATIO * before)
    ):
        return None  # it is over, or was only the beginning
    change = step_change(pace.fetches)
    now = _with_recent_fetches(
        now if change is None else now.with_fetches(now.fetches.began_ns >= change.at_ns)
    )
    if _first_epoch(now) and now.total_s < FIRST_EPOCH_S and not hands_over(now):
        return None
    if capacity_short(now) is not True and _is_spiky(now, limits):
        return None
    began_ns, lost_s = _began(pace, now, limits)
    cause = refined_cause(now, cpus, machine_of(window, pace.rank, pace.loader.loader), change)
    if cause.scenario in MAY_WARM_UP and _warms_up(pace, now):
        cause = warming_cause(now)
    severity = "critical" if share >= limits.input_critical_ratio else "warning"
    if cause.scenario == "S09" and _first_epoch(now):
        severity = "info"
    elif cause.scenario == "S14":
        # A busy machine looks like this as well, and the loader cannot help it: hardly any of the wait is work.
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


def _is_spiky(now: Pace, limits: Limits) -> bool:
    """Single long waits are the story: a worker was late, or something stopped the loop once or twice.

    Long waits that come again and again, and for which no worker was late, are a steady trouble of what lies between.
    """
    long = spike_mask(now, limits)
    if float(now.wait_s[long].sum()) < SPIKE_PART * now.lost_s:
        return False
    return int(long.sum()) < AGAIN_AND_AGAIN or bool(find_spikes(now, limits))


def _with_recent_fetches(now: Pace) -> Pace:
    """Only the fetches of the same time, if there are enough: the workers may have been quicker before."""
    lately = now.fetches.ended_ns >= now.request_ns[0]
    return now.with_fetches(lately) if lately.sum() >= RECENT_ROUNDS * (now.workers or 1) else now


def _first_epoch(now: Pace) -> bool:
    return not bool((now.epoch > 0).any())


def _warms_up(pace: Pace, now: Pace) -> bool:
    """The fetches of the first epoch get shorter, as when the page cache fills: no case for an alert yet.

    Either they still do, or they have become short enough for the model.
    """
    if now.wait_s.size < WARMING_ROWS or not _first_epoch(now):
        return False
    fetches = pace.fetches.fetch_s  # of the whole epoch: a few rounds of workers that vary may fall by chance
    waits = now.wait_s[:-1] if now.open_wait else now.wait_s  # how long one takes that goes on is not known
    series = fetches if fetches.size >= WARMING_ROWS else waits
    thirds = np.array_split(series, 3)
    first, second, last = (median(third) for third in thirds)
    steep = trend(series) < -max(WARMING_TREND, WARMING_SIGMAS / math.sqrt(series.size - 1))
    enough = series is fetches and last <= (now.workers or 1) * now.mean_step_s
    return last < WARMING_RATIO * first and steep and (first > second > last or enough)


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


def spiky_stall(pace: Pace, cpus: Cpus, limits: Limits, slow: Sequence[Spike] | None = None) -> Stall | None:
    """Single long waits; None when there are none worth a word.

    Of a loader that otherwise keeps up any long wait counts, of one that does not only those of ``slow``, if it is given.
    """
    spikes = _spikes(pace, limits) if slow is None else slow
    began_ns = pace.rank.made_ns - int(limits.spike_recent_s * 1e9)
    limit_s = wait_limit_s(pace.rank, pace.loader.loader, limits)
    # Beyond the limit it was reported as a hang; one that goes on lies under that, if it is one.
    spikes = [spike for spike in spikes if spike.open or spike.wait_s < limit_s]
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


def _spikes(pace: Pace, limits: Limits) -> list[Spike]:
    if not pace.workers or capacity_short(pace) is True:
        return []
    if step_change(pace.fetches) is not None or may_be_changing(pace.fetches):
        return []  # all workers are slow at once: that is no spike
    return find_spikes(pace, limits)
