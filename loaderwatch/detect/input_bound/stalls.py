"""What one loader costs one rank: whether it is a stall at all, since when, and how grave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loaderwatch.core.answers import Severity
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.rules import explain
from loaderwatch.detect.input_bound.spikes import Spike, find_spikes, slow_samples, spike_mask, without
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.machine import Cpus
from loaderwatch.detect.measures.pace import Pace, recent, takes_from_several
from loaderwatch.detect.measures.progress import wait_limit_s
from loaderwatch.detect.measures.statistics import ratio
from loaderwatch.detect.window import RunWindow

SPIKE_PART = 0.6  # share of the wait inside long waits, above which the long waits are the story
AGAIN_AND_AGAIN = 5
SPIKE_REPEAT_RATIO = 0.05  # a spike that comes again is worth a word at half the usual share
FIRST_EPOCH_S = 4.0  # of a first epoch that must have been seen, so that a trend of the workers would show
RECENT_ROUNDS = 2
OVER_RATIO = (
    0.5  # the newer half of the rows against the limit, or against the older half: less is a stall no more
)
BUCKET_NS = 5_000_000_000


@dataclass(frozen=True)
class Stall:
    """What one loader costs one rank."""

    symptoms: Symptoms
    explanation: Explanation
    share: float
    began_ns: int
    lost_s: float
    severity: Severity

    @property
    def pace(self) -> Pace:
        """The rows it was judged on."""
        return self.symptoms.pace

    @property
    def spiky(self) -> bool:
        """Whether it is made of single long waits."""
        return bool(self.symptoms.spikes)

    def source(self, limits: Limits) -> str:
        """Which loader the wait is in, where the loop takes batches from more than one."""
        return f" from {self.pace.loader.name}" if takes_from_several(self.pace.rank, limits) else ""


def stalls_of(window: RunWindow, pace: Pace, cpus: Cpus, limits: Limits) -> list[Stall]:
    """The steady wait of one loader and rank, and its single long ones; each is judged without the other."""
    slow = slow_samples(pace)
    rest = without(pace, slow)
    lately_ns = pace.rank.made_ns - int(limits.recent_s * 1e9)
    aside_s = sum(spike.wait_s for spike in slow if spike.request_ns + spike.wait_s * 1e9 >= lately_ns)
    now = recent(rest, limits, aside_s)
    steady = steady_stall(window, rest, now, cpus, limits) if now is not None else None
    short = steady is not None or Symptoms(window, rest, cpus).short is True
    # Of a loader that keeps up any long wait counts, of one that does not only those for slow samples.
    spikes = slow if short else _spikes(Symptoms(window, pace, cpus))
    spiky = spiky_stall(window, pace, cpus, spikes, limits)
    return [stall for stall in (steady, spiky) if stall is not None]


def steady_stall(window: RunWindow, pace: Pace, now: Pace, cpus: Cpus, limits: Limits) -> Stall | None:
    """A wait that recurs at every step or every few steps, judged on ``now``; None when it is none."""
    if not _is_stall(now, limits):
        return None
    change = pace.fetches.change
    now = _with_recent_fetches(
        now if change is None else now.with_fetches(now.fetches.began_ns >= change.at_ns)
    )
    symptoms = Symptoms(window, now, cpus, history=pace.fetches)
    if symptoms.first_epoch and now.total_s < FIRST_EPOCH_S and not symptoms.hands_over:
        return None
    if symptoms.short is not True and _is_spiky(now):
        return None
    began_ns, lost_s = _began(pace, now, limits)
    explanation = explain(symptoms)
    severity = _severity(now.share, symptoms, explanation, limits)
    return Stall(symptoms, explanation, now.share, began_ns, lost_s, severity)


def _is_stall(now: Pace, limits: Limits) -> bool:
    """Whether the waits cost enough to be told, and still do in the newer half."""
    if not (
        now.share >= limits.input_warning_ratio
        and now.lost_s >= limits.input_floor_s
        and now.lost_s / now.wait_s.size >= limits.input_step_floor_s
    ):
        return False
    newer = np.arange(now.wait_s.size) >= now.wait_s.size // 2
    lately, before = now.where(newer).share, now.where(~newer).share
    usual = min(limits.input_warning_ratio, OVER_RATIO * before)
    return not lately < max(OVER_RATIO * limits.input_warning_ratio, usual)


def _severity(share: float, symptoms: Symptoms, explanation: Explanation, limits: Limits) -> Severity:
    critical = share >= limits.input_critical_ratio
    if explanation.scenario == "S09" and symptoms.first_epoch:
        return "info"
    if explanation.scenario == "S14":
        # A busy machine looks like this as well, and the loader cannot help it: hardly any of the wait is work.
        return "warning" if critical else "info"
    return "critical" if critical else "warning"


def _is_spiky(now: Pace) -> bool:
    """Single long waits are the story: a worker was late, or something stopped the loop once or twice.

    Long waits that come again and again, and for which no worker was late, are a steady trouble of what lies between.
    """
    long = spike_mask(now)
    if float(now.wait_s[long].sum()) < SPIKE_PART * now.lost_s:
        return False
    return int(long.sum()) < AGAIN_AND_AGAIN or bool(find_spikes(now))


def _with_recent_fetches(now: Pace) -> Pace:
    """Only the fetches of the same time, if there are enough: the workers may have been quicker before."""
    lately = now.fetches.ended_ns >= now.request_ns[0]
    return now.with_fetches(lately) if lately.sum() >= RECENT_ROUNDS * (now.workers or 1) else now


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


def spiky_stall(
    window: RunWindow, pace: Pace, cpus: Cpus, spikes: Sequence[Spike], limits: Limits
) -> Stall | None:
    """Single long waits; None when there are none worth a word."""
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
        severity: Severity = "info"  # it may end soon, or turn out to be a hang
    elif share >= limits.input_critical_ratio and repeated:
        severity = "critical"
    elif share >= limits.input_warning_ratio or (repeated and all_share >= SPIKE_REPEAT_RATIO):
        severity = "warning"
    else:
        severity = "info"
    if severity == "info" and lost_s < 1.0:
        return None
    symptoms = Symptoms(window, pace, cpus, spikes=tuple(spikes))
    return Stall(
        symptoms,
        explain(symptoms),
        share=max(share, all_share),
        began_ns=min(spike.request_ns for spike in spikes),
        lost_s=sum(spike.wait_s for spike in spikes),
        severity=severity,
    )


def _spikes(symptoms: Symptoms) -> list[Spike]:
    pace = symptoms.pace
    if not pace.workers or symptoms.short is True:
        return []
    if pace.fetches.change is not None or pace.fetches.may_be_changing:
        return []  # all workers are slow at once: that is no spike
    return find_spikes(pace)
