"""The one sentence about a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from loaderwatch.detect.crash.evidence import interrupted
from loaderwatch.detect.finding import SEVERITIES, Finding
from loaderwatch.detect.measures.pace import shares_of, totals_since
from loaderwatch.detect.measures.progress import LOADER_PHASES
from loaderwatch.detect.text import count, duration, percent
from loaderwatch.detect.window import RankWindow, RunWindow

RECENT_NS = 30_000_000_000
FEW_STEPS = 5
UNSURE_RATIO = 0.10
UNMEASURED_S: Final = 20.0
"""A process that was watched for so long without a loader being iterated may well have the wrong one attached."""
DIAGNOSED_S: Final = 10.0
"""What the detectors need to be sure, first batches left out: in a shorter run they may have said nothing."""
_TELLING: Final = ("fast-forward", "hung")  # a remark of these says why nothing is trained now


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What to tell a person first. ``key`` is the finding's, None when there is none."""

    severity: str  # "ok" | "info" | "warning" | "critical"
    title: str
    advice: str
    key: str | None = None


def verdict(window: RunWindow, findings: Sequence[Finding]) -> Verdict:
    """The worst finding's sentence, else what a healthy run looks like in numbers."""
    firing = [finding for finding in findings if finding.ended_ns is None and finding.severity != "info"]
    if firing:
        worst = max(firing, key=lambda f: (SEVERITIES[f.severity], f.code == "hung", f.lost_s or 0.0))
        return Verdict(severity=worst.severity, title=worst.title, advice=worst.advice, key=worst.key)
    telling = [f for f in findings if f.code in _TELLING and f.ended_ns is None]
    if telling:
        return Verdict(severity="info", title=telling[0].title, advice=telling[0].advice, key=telling[0].key)
    states = {rank.process.state for rank in window.ranks.values()}
    crashed = sorted(rank.rank for rank in window.ranks.values() if rank.process.state == "crashed")
    if crashed:
        first = window.ranks[crashed[0]].process
        if interrupted(first):
            return Verdict(severity="info", title="Stopped by Ctrl-C (KeyboardInterrupt).", advice="")
        how = f" ({first.exit})" if first.exit else ""
        return Verdict(
            severity="critical",
            title=f"Rank {crashed[0]} crashed{how}."
            if len(window.ranks) > 1
            else f"The training process crashed{how}.",
            advice="Its last steps and open span are on this page.",
        )
    unwatched = [
        rank
        for _, rank in sorted(window.ranks.items())
        if rank.process.tripped and rank.process.state == "live"
    ]
    if unwatched:
        return _stepped_aside(unwatched, len(window.ranks))
    live = [
        totals
        for rank in window.ranks.values()
        if rank.process.state == "live"
        and (totals := totals_since(rank, rank.made_ns - RECENT_NS)).rows
        and totals.total_s > 0
    ]
    if states == {"finished"}:
        if _unmeasured(list(window.ranks.values())):
            title = "Finished. No loader was iterated: nothing was measured."
            return Verdict(severity="info", title=title, advice=_ATTACH)
        ended = "Finished: every training process ended by itself."
        return _too_short(window, ended) or Verdict(severity="ok", title=ended, advice="")
    if sum(totals.rows for totals in live) < FEW_STEPS:
        return _quiet(window)
    share = sum(totals.wait_s for totals in live) / max(1e-9, sum(totals.total_s for totals in live))
    steps_per_s = sum(totals.rows / totals.total_s for totals in live) / len(live)
    ranks = len(live)
    if share >= UNSURE_RATIO:
        return Verdict(
            severity="ok",
            title=f"Data wait took {percent(share)} of the last seconds; watching whether it lasts.",
            advice="",
        )
    return Verdict(
        severity="ok",
        title=f"Healthy: data wait takes {percent(share)} of each step; {steps_per_s:.1f} steps/s on"
        f" {count(ranks, 'rank')}.",
        advice="",
    )


def _stepped_aside(unwatched: Sequence[RankWindow], ranks: int) -> Verdict:
    """The hooks gave up after faults of ours: what stands still on the page is not the training."""
    first = unwatched[0]
    where = f" on rank {first.rank}" if ranks > 1 else ""
    others = f" and {count(len(unwatched) - 1, 'other')}" if len(unwatched) > 1 else ""
    return Verdict(
        severity="info",
        title=f"loaderwatch stepped aside{where}{others} after {first.process.faults} faults of its own;"
        " training goes on unwatched.",
        advice="Nothing is wrong with the training: what the page says of it has stood still since. The job's stderr names"
        " the fault, and a bug report with that line helps. A restart of the job is watched again.",
    )


_ATTACH: Final = (
    "Attach the loader that the training loop iterates: loaderwatch.attach(train_loader). Of an iterable that is no"
    " DataLoader, iterate what attach returns: train_loader = loaderwatch.attach(train_loader). Batches that a script makes"
    " without any iterable cannot be measured."
)


def _unmeasured(ranks: Sequence[RankWindow]) -> bool:
    """Whether no loader of these was ever begun, though there was time for it."""
    return bool(ranks) and all(
        rank.span is not None
        and not rank.span.batches
        and rank.span.phase not in LOADER_PHASES
        and rank.made_ns - rank.process.started_ns >= UNMEASURED_S * 1e9
        and not any(rank.table(name)["rank"].size for name in ("epoch_begins", "steps"))
        for rank in ranks
    )


def _quiet(window: RunWindow) -> Verdict:
    """Why there is nothing to judge now."""
    live = [rank for rank in window.ranks.values() if rank.process.state == "live" and rank.span is not None]
    if _unmeasured(live):
        title = "No loader has been iterated yet: nothing is measured."
        return Verdict(severity="info", title=title, advice=_ATTACH)
    steps = max((rank.span.steps or rank.span.batches for rank in live if rank.span), default=0)
    if steps < FEW_STEPS:
        return _too_short(window, "Warming up.") or _plain("Warming up: too few steps yet for a verdict.")
    ages = [
        (rank.made_ns - rank.span.since_ns) / 1e9
        for rank in live
        if rank.span and rank.span.phase == "outside"
    ]
    if ages and len(ages) == len(live):
        return _plain(f"Outside the training loop for {duration(min(ages))}; {steps:,} steps so far.")
    return _plain(f"No training step ended in the last seconds; {steps:,} steps so far.")


def _too_short(window: RunWindow, beginning: str) -> Verdict | None:
    """What a run that is too short for a diagnosis spent its time on; None when it was long enough, or nothing is known.

    The first wait of an epoch counts here, which the detectors leave out: in a short run it is most of what there is.
    """
    shares = [shares for rank in window.ranks.values() if (shares := shares_of(rank)) is not None]
    if not shares:
        return None
    elapsed_s = max(one.elapsed_s for one in shares)
    if elapsed_s >= DIAGNOSED_S or elapsed_s <= 0:
        return None
    wait_ratio = sum(one.wait_s / one.elapsed_s for one in shares if one.elapsed_s > 0) / len(shares)
    start_ratio = sum(one.start_s / one.elapsed_s for one in shares if one.elapsed_s > 0) / len(shares)
    starts = f" and {percent(start_ratio)} starts of an epoch" if start_ratio >= UNSURE_RATIO else ""
    much = wait_ratio + start_ratio >= UNSURE_RATIO
    return Verdict(
        severity="info" if much else "ok",
        title=f"{beginning} {percent(wait_ratio)} of {duration(elapsed_s)} were data wait{starts}; too short for a diagnosis"
        f" (needs about {duration(DIAGNOSED_S)} of steps).",
        advice="Let it run for longer, or ask `loaderwatch doctor` for the settings of its loaders."
        if much
        else "",
    )


def _plain(title: str) -> Verdict:
    return Verdict(severity="ok", title=title, advice="")
