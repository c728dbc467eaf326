"""The verdict: the one sentence that is said first about a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from loaderwatch.core.answers import RunStatus, Verdict
from loaderwatch.detect.crash.unexplained import crash_verdict
from loaderwatch.detect.finding import SEVERITIES, Finding, Occurrence
from loaderwatch.detect.incidents.watching import watched
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.critical_path import run_use
from loaderwatch.detect.measures.progress import (
    LOADER_PHASES,
)
from loaderwatch.detect.measures.shares import RECENT_S, Use, shares_of
from loaderwatch.detect.measures.standstill import FEW_STEPS
from loaderwatch.detect.text import count, duration, percent
from loaderwatch.detect.window import RankWindow, RunWindow

UNMEASURED_S: Final = 20.0
"""After so many seconds without any loader iterated, a process may well have the wrong one attached."""
DIAGNOSED_S: Final = 10.0
"""Seconds that detectors need to be sure, without first batches; in a shorter run they may say nothing."""
FORECAST: Final = "running-out"
"""The code of findings about what will happen if the run goes on."""
URGENCY: Final = {"hung": 2, FORECAST: 1}
"""Codes that speak before others of the same severity: training stands still, or is about to die."""
_WARNING_RATIO: Final = Limits().input_warning_ratio
_INPUT: Final = "input-bound"  # a remark with this code says what the data is waited for
_TELLING: Final = ("fast-forward", "hung")  # a remark with such a code says why nothing is trained now


def verdict_of(
    state: RunStatus,
    window: Callable[[], RunWindow],
    occurrences: Sequence[Occurrence],
    *,
    silent_s: float | None = None,
    refused: str | None = None,
) -> Verdict:
    """Return what is said first of a run, on the page, in the list of runs, in messages, by ``analyze``.

    ``state`` is "live", "lost", "finished" or "crashed". ``occurrences`` are the incidents or alerts of the
    attempt in question only. ``window`` is called only where the rows have to speak, because a stored run's
    must be read. ``silent_s`` is for how many seconds a lost run has not been heard of, None if it never said
    how it ended; what was said of it last stays. ``refused`` is why what the run sends cannot be stored, None if it can.
    """
    if refused is not None:
        return _not_stored(refused)
    if state == "lost":
        return _ended_unheard() if silent_s is None else no_news(silent_s, last_said(window(), occurrences))
    if state == "crashed":
        return crash_verdict(window(), occurrences)
    if state == "finished":
        told = [each for each in occurrences if each.finding.severity != "info"]
        return _at_its_end(told) if told else _by_numbers(window(), [])
    worst = _most_urgent([each for each in occurrences if each.finding.ended_ns is None])
    return _by_numbers(window(), occurrences) if worst is None else _of(worst)


def _at_its_end(told: Sequence[Occurrence]) -> Verdict:
    """Return the verdict of a finished run: the gravest alert. A forecast comes last, as a remark, because it did not come true."""
    came_true = [each for each in told if each.finding.code != FORECAST]
    worst = max(came_true or told, key=lambda each: _gravity(each.finding))
    if came_true:
        return _of(worst, "Finished. While it ran: ")
    return msgspec.structs.replace(_of(worst, "Finished before what was forecast: "), severity="info")


def last_said(window: RunWindow, occurrences: Sequence[Occurrence]) -> Verdict:
    """Return the verdict as it was at the last news of a lost run: what was closed only because of the silence counts."""
    open_then = [
        each
        for each in occurrences
        if each.finding.ended_ns is None or each.finding.ended_ns >= window.now_ns
    ]
    worst = _most_urgent(open_then)
    return _by_numbers(window, occurrences) if worst is None else _of(worst)


def no_news(silent_s: float, last: Verdict | None) -> Verdict:
    """Return the verdict when the streamer stopped sending, which says nothing about the training.

    ``last`` is what was said before the silence, None where that is not known yet.
    """
    if last is None:
        title = f"No news for {duration(silent_s)}: whether training goes on is not known."
        return Verdict(severity="info", title=title, advice=_REACH)
    grave = last.severity in ("warning", "critical")
    return Verdict(
        severity=last.severity if grave else "info",
        title=f"No news for {duration(silent_s)}: whether training goes on is not known. When last heard of: {last.title}",
        advice=f"{last.advice} {_REACH}" if grave and last.advice else _REACH,
        finding_id=last.finding_id,
    )


_REACH: Final = (
    "Check that the host is up and can reach this server. What was recorded meanwhile waits on its disk and is shown when the"
    " connection is back."
)


def _most_urgent(occurrences: Sequence[Occurrence]) -> Occurrence | None:
    """Return the alert that speaks first; remarks never do."""
    return max(
        (each for each in occurrences if each.finding.severity != "info"),
        key=lambda each: (
            SEVERITIES[each.finding.severity],
            URGENCY.get(each.finding.code, 0),
            each.finding.lost_s or 0.0,
        ),
        default=None,
    )


def _gravity(finding: Finding) -> tuple[int, float]:
    return SEVERITIES[finding.severity], finding.lost_s or 0.0


def _of(occurrence: Occurrence, beginning: str = "") -> Verdict:
    finding = occurrence.finding
    return Verdict(
        severity=finding.severity,
        title=f"{beginning}{finding.title}",
        advice=finding.advice,
        finding_id=occurrence.id,
    )


def _ended_unheard() -> Verdict:
    """Return the verdict of an earlier attempt whose end nobody reported."""
    return Verdict(
        severity="info",
        title="Nobody said how this attempt ended: its last news is older than the beginning of the next.",
        advice="Read the end of its log: what ended it ended the streamer beside it too, as a container or a host that goes"
        " does.",
    )


def _not_stored(reason: str) -> Verdict:
    """Return the verdict when envelopes come but cannot be stored."""
    return Verdict(
        severity="critical",
        title="This server cannot store what the run sends; training goes on, and what you see here stands still.",
        advice=f"The reason: {reason}. Free some space there, or make it writable; nothing needs to be restarted. What comes"
        " meanwhile waits on the run's hosts and is shown afterwards.",
    )


def _by_numbers(window: RunWindow, occurrences: Sequence[Occurrence]) -> Verdict:
    """Return the verdict without an alert: a remark on why nothing is trained, else what the numbers say."""
    telling = [
        each for each in occurrences if each.finding.code in _TELLING and each.finding.ended_ns is None
    ]
    if telling:
        return _of(telling[0])
    states = {rank.process.state for rank in window.ranks.values()}
    if "crashed" in states:
        return crash_verdict(window, occurrences)
    unwatched = [
        rank
        for _, rank in sorted(window.ranks.items())
        if rank.process.tripped and rank.process.state == "live"
    ]
    if unwatched:
        return _stepped_aside(unwatched, len(window.ranks))
    waiting = watched(window)
    if waiting is not None:
        return waiting
    if states == {"finished"}:
        if _unmeasured(list(window.ranks.values())):
            title = "Finished. No loader was iterated: nothing was measured."
            return Verdict(severity="info", title=title, advice=_ATTACH)
        ended = "Finished: every training process ended by itself."
        return _too_short(window, ended) or Verdict(severity="ok", title=ended, advice="")
    use, ranks = run_use(window), sum(rank.process.state == "live" for rank in window.ranks.values())
    share, speed = use.wait_ratio or 0.0, use.steps_per_s or 0.0
    if share * _in_loops_ratio(list(use.ranks.values())) >= _WARNING_RATIO:
        judged = (
            each for each in occurrences if each.finding.code == _INPUT and each.finding.ended_ns is None
        )
        said = next(judged, None)
        return _much_wait(window, share) if said is None else _of(said)
    if not _is_enough(list(use.ranks.values())):
        return _quiet(window, sum(of.batches for of in use.ranks.values()))
    costly = max(
        (each for each in occurrences if each.finding.ended_ns is None),
        key=lambda each: each.finding.gain_ceiling_ratio or 0.0,
        default=None,
    )
    if costly is not None and (costly.finding.gain_ceiling_ratio or 0.0) >= _WARNING_RATIO:
        return _of(costly)
    if not speed:  # it is known a few seconds later
        title = f"Healthy: data wait takes {percent(share)} of each step on {count(ranks, 'rank')}."
        return Verdict(severity="ok", title=title)
    return Verdict(
        severity="ok",
        title=f"Healthy: data wait takes {percent(share)} of each step; {speed:.{1 if speed >= 1 else 2}f} steps/s on"
        f" {count(ranks, 'rank')}.",
        advice="",
    )


def _is_enough(uses: Sequence[Use]) -> bool:
    """Whether the last half minute holds enough steps for a verdict: a few of them, or few long ones."""
    long = any(use.batches and use.wait_s + use.step_s >= DIAGNOSED_S for use in uses)
    return long or sum(use.batches for use in uses) >= FEW_STEPS


def _in_loops_ratio(uses: Sequence[Use]) -> float:
    """Return the share (0 to 1) of the last half minute in which the ranks waited or trained; the rest is their own work between passes."""
    covered_s = sum(use.covered_s for use in uses)
    return min(1.0, sum(use.wait_s + use.step_s for use in uses) / covered_s) if covered_s > 0 else 1.0


def _much_wait(window: RunWindow, share: float) -> Verdict:
    """Return the verdict beside a share that no detector has judged yet."""
    short = _too_short(window, "Warming up.") if _steps(window) < FEW_STEPS else None
    if short is not None and short.severity == "info":
        return short
    title = f"Data wait took {percent(share)} of each step; watching whether it lasts."
    return Verdict(severity="info", title=title)


def _steps(window: RunWindow) -> int:
    spans = [rank.span for rank in window.ranks.values() if rank.process.state == "live" and rank.span]
    return max((span.steps or span.batches for span in spans), default=0)


def _stepped_aside(unwatched: Sequence[RankWindow], ranks: int) -> Verdict:
    """Return the verdict when the hooks gave up after faults of ours.

    What stands still on the page is then not the training.
    """
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
    " DataLoader, iterate what attach returns: train_loader = loaderwatch.attach(train_loader). A training without"
    " any loader is timed between its steps, once one of PyTorch's optimizers steps."
)


def _unmeasured(ranks: Sequence[RankWindow]) -> bool:
    """Whether none of these ranks ever began to iterate a loader, though there was time for it."""
    return bool(ranks) and all(
        rank.span is not None
        and not rank.span.batches
        and rank.span.phase not in LOADER_PHASES
        and rank.made_ns - rank.process.started_ns >= UNMEASURED_S * 1e9
        and not any(rank.table(name)["rank"].size for name in ("epoch_begins", "steps"))
        for rank in ranks
    )


def _quiet(window: RunWindow, ended: int) -> Verdict:
    """Return the verdict that says why there is nothing to judge now; ``ended``: steps of the last half minute."""
    live = [rank for rank in window.ranks.values() if rank.process.state == "live" and rank.span is not None]
    if _unmeasured(live):
        title = "No loader has been iterated yet: nothing is measured."
        return Verdict(severity="info", title=title, advice=_ATTACH)
    steps = _steps(window)
    if steps < FEW_STEPS:
        return _too_short(window, "Warming up.") or _plain("Warming up: too few steps yet for a verdict.")
    ages = [
        (rank.made_ns - rank.span.since_ns) / 1e9
        for rank in live
        if rank.span and rank.span.phase == "outside"
    ]
    if ages and len(ages) == len(live):
        return _plain(f"Outside the training loop for {duration(min(ages))}; {steps:,} steps so far.")
    since_ns = {rank.rank: rank.made_ns - int(RECENT_S * 1e9) for rank in live}
    if ended or any((rank.steps["request_ns"] >= since_ns[rank.rank]).any() for rank in live):
        return _plain(f"Few training steps lately, too few for a verdict; {steps:,} steps so far.")
    return _plain(f"No training step ended in the last {RECENT_S:.0f} seconds; {steps:,} steps so far.")


def _too_short(window: RunWindow, beginning: str) -> Verdict | None:
    """Return the verdict of a run that is too short for a diagnosis: what it spent its time on.

    None when it was long enough, or nothing is known. The first wait of an epoch counts here, which the
    detectors leave out: in a short run it is most of what there is.
    """
    shares = [shares for rank in window.ranks.values() if (shares := shares_of(rank)) is not None]
    if not shares:
        return None
    elapsed_s = max(one.elapsed_s for one in shares)
    if elapsed_s >= DIAGNOSED_S or elapsed_s <= 0:
        return None
    wait_ratio = sum(one.wait_s / one.elapsed_s for one in shares if one.elapsed_s > 0) / len(shares)
    start_ratio = sum(one.start_s / one.elapsed_s for one in shares if one.elapsed_s > 0) / len(shares)
    starts = f" and {percent(start_ratio)} starts of an epoch" if start_ratio >= _WARNING_RATIO else ""
    much = wait_ratio + start_ratio >= _WARNING_RATIO
    return Verdict(
        severity="info" if much else "ok",
        title=f"{beginning} {percent(wait_ratio)} of {duration(elapsed_s)} were data wait{starts}; too short for a diagnosis"
        f" (needs about {duration(DIAGNOSED_S)} of steps).",
        advice="Let it run for longer, or ask `loaderwatch doctor` for the settings of its loaders."
        if much
        else "",
    )


def _plain(title: str) -> Verdict:
    return Verdict(severity="ok", title=title)
