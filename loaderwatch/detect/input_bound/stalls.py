"""Stalls: whether waiting for one loader costs one rank too much, since when, and how grave it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Severity
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RankEvidence
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.input_bound.loaderless_causes import is_meant
from loaderwatch.detect.input_bound.rules import explain
from loaderwatch.detect.input_bound.spikes import Spike, find_spikes, slow_samples, spike_mask, without
from loaderwatch.detect.input_bound.symptoms import FEW_LATER_STEPS, Symptoms
from loaderwatch.detect.measures.pace import Pace, recent
from loaderwatch.detect.measures.statistics import ratio
from loaderwatch.detect.shared_thresholds import JITTER_SPIKES, Limits

SPIKY_RATIO: Final = threshold(
    0.6, "ratio", "chosen: of the waiting time; if so much is in long waits, they are the trouble"
)
STEADY_LONG_WAITS: Final = threshold(
    5, "waits", "chosen: so many long waits without a late worker are a steady trouble"
)
SPIKE_REPEAT_RATIO: Final = threshold(
    0.05, "ratio", "chosen: half of the usual 10 % of the time, for spikes that recur"
)
FIRST_EPOCH_S: Final = threshold(4.0, "s", "chosen: earlier in a first epoch no trend of the workers shows")
SHORT_PASSES_S: Final = threshold(
    5.0, "s", "chosen: by then a script that simulates between passes has shown it; a stall is due within ten"
)
RECENT_ROUNDS: Final = threshold(
    2, "rounds", "chosen: of all workers; fetches of fewer rounds say little, so older ones count as well"
)
OVER_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the limit or the older half's share; with a smaller newer half it is over"
)
STALL_BUCKET_NS: Final = threshold(
    5_000_000_000, "ns", "chosen: the length of the steps that find a stall's begin"
)


@dataclass(frozen=True)
class Stall:
    """One stall: the waits for one loader on one rank, their cause and their cost.

    ``share`` is the lost part of the time (0 to 1), ``lost_s`` the seconds lost since ``began_ns`` (UTC).
    """

    symptoms: Symptoms
    explanation: Explanation
    share: float
    began_ns: int
    lost_s: float
    severity: Severity

    @property
    def pace(self) -> Pace:
        """Return the steps and fetches that the stall was judged on."""
        return self.symptoms.pace

    @property
    def spiky(self) -> bool:
        """Whether it consists of single long waits."""
        return bool(self.symptoms.spikes)

    @property
    def source(self) -> str | None:
        """Return the loader's name if the loop takes batches from several loaders, else None."""
        return self.pace.loader.name if self.symptoms.rank.takes_from_several else None


def stalls_of(rank: RankEvidence, pace: Pace) -> list[Stall]:
    """Return at most two stalls of one loader and rank: its steady wait, and its single long waits.

    Each of the two is judged without the other.
    """
    slow, limits = slow_samples(pace), rank.limits
    rest = without(pace, slow)
    lately_ns = pace.rank.made_ns - int(limits.recent_s * 1e9)
    aside_s = sum(spike.wait_s for spike in slow if spike.request_ns + spike.wait_s * 1e9 >= lately_ns)
    now = recent(rest, limits, aside_s)
    steady = steady_stall(rank, rest, now) if now is not None else None
    short = steady is not None or Symptoms(rank, rest).short is True
    # If the loader keeps up, every long wait counts. Otherwise only long waits for slow samples do.
    spikes = slow if short else _spikes(Symptoms(rank, pace))
    spiky = spiky_stall(rank, pace, spikes)
    return [stall for stall in (steady, spiky) if stall is not None]


def steady_stall(rank: RankEvidence, pace: Pace, now: Pace) -> Stall | None:
    """Return the stall of a wait that recurs at every step or every few steps; None if there is none.

    It is judged on ``now``. ``pace`` reaches further back and shows when the stall began.
    """
    limits = rank.limits
    if not _is_stall(now, limits):
        return None
    change = pace.fetches.change
    now = _with_recent_fetches(
        now if change is None else now.with_fetches(now.fetches.began_ns >= change.at_ns)
    )
    symptoms = Symptoms(rank, now, history=pace.fetches)
    if is_meant(Symptoms(rank, pace)):
        return None
    if symptoms.first_epoch and now.total_s < FIRST_EPOCH_S and not symptoms.hands_over:
        return None
    if pace.elapsed_s < SHORT_PASSES_S and np.ptp(pace.epoch) > 0:
        return None  # it is not known yet what the script does between such short passes
    if symptoms.short is not True and _is_spiky(now) and not _reads_in_bursts(pace):
        return None
    began_ns, lost_s = _began(pace, now, limits)
    explanation = explain(symptoms)
    severity = _severity(now.share, symptoms, explanation, limits)
    return Stall(symptoms, explanation, now.share, began_ns, lost_s, severity)


def _is_stall(now: Pace, limits: Limits) -> bool:
    """Whether the waits cost enough to be reported, and still do in the newer half of the rows."""
    if not (
        now.share >= limits.input_warning_ratio
        and now.lost_s >= limits.input_floor_s
        and now.lost_s / now.wait_s.size >= limits.input_step_floor_s
    ):
        return False
    later = now.epoch > 0
    if (
        FEW_LATER_STEPS <= int(later.sum()) < later.size
        and now.where(later).loop_share < limits.input_warning_ratio
    ):
        return False  # only the first epoch was slow, for example because it filled a cache
    newer = np.arange(now.wait_s.size) >= now.wait_s.size // 2
    lately, before = now.where(newer).loop_share, now.where(~newer).loop_share
    usual = min(limits.input_warning_ratio, OVER_RATIO * before)
    over = lately < max(OVER_RATIO * limits.input_warning_ratio, usual)
    return not over  # not over either if the newer half has no data: its share is NaN


def _severity(share: float, symptoms: Symptoms, explanation: Explanation, limits: Limits) -> Severity:
    critical = share >= limits.input_critical_ratio
    if explanation.remark or (explanation.scenario == "S09" and symptoms.first_epoch):
        return "info"
    if explanation.mild:
        return "warning" if critical else "info"
    return "critical" if critical else "warning"


def _is_spiky(now: Pace) -> bool:
    """Whether the waiting is mostly single long waits: a worker was late, or something stopped the loop.

    Many long waits without a late worker are a steady trouble between the workers and the loop.
    """
    long = spike_mask(now)
    if float(now.wait_s[long].sum()) < SPIKY_RATIO * now.lost_s:
        return False
    return int(long.sum()) < STEADY_LONG_WAITS or bool(find_spikes(now))


def _reads_in_bursts(pace: Pace) -> bool:
    """Whether the loop reads without workers in bursts, such as a row group or a file at a time."""
    return not pace.workers and int(spike_mask(pace).sum()) >= JITTER_SPIKES


def _with_recent_fetches(now: Pace) -> Pace:
    """Return the pace with only the fetches of the same time, or with all fetches if those are too few.

    Before that time the workers may have been faster.
    """
    lately = now.fetches.ended_ns >= now.request_ns[0]
    return now.with_fetches(lately) if lately.sum() >= RECENT_ROUNDS * (now.workers or 1) else now


def _began(pace: Pace, now: Pace, limits: Limits) -> tuple[int, float]:
    """Return when the stall began (ns UTC, in steps of five seconds) and the seconds lost since then."""
    bucket = (pace.rank.made_ns - pace.request_ns) // STALL_BUCKET_NS
    began = int(now.request_ns[0])
    oldest = int((pace.rank.made_ns - began) // STALL_BUCKET_NS)
    quiet = 0
    for index in range(oldest + 1, int(bucket.max(initial=0)) + 1):
        rows = bucket == index
        if not rows.any():
            quiet += 1
        elif pace.where(rows).loop_share >= limits.input_warning_ratio:
            began, quiet = int(pace.request_ns[rows].min()), 0
        else:
            break
        if quiet > 1:
            break
    return began, pace.since(began).lost_s


def spiky_stall(rank: RankEvidence, pace: Pace, spikes: Sequence[Spike]) -> Stall | None:
    """Return the stall that consists of single long waits; None if none is worth reporting."""
    limits = rank.limits
    began_ns = pace.rank.made_ns - int(limits.spike_recent_s * 1e9)
    limit_s = rank.wait_limit_s(pace.loader.loader)
    # A single wait above the limit was reported as a hang already. Several closed ones are a recurring stall.
    # An open wait stays: if it is a hang, the hang explains it.
    if sum(not spike.open for spike in spikes) < 2:
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
    symptoms = Symptoms(rank, pace, spikes=tuple(spikes))
    explanation = explain(symptoms)
    if explanation.scenario == "S09":
        severity = "info"  # a cold first epoch, which has ended
    return Stall(
        symptoms,
        explanation,
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
        return []  # all workers are slow at once, which is no spike
    return find_spikes(pace)
