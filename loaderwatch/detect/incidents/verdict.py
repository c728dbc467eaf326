"""The verdict: the one sentence about a run that people see first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.answers import Param, RunStatus, Text, Verdict, VerdictSeverity
from loaderwatch.core.facts import LoaderInfo, SpanInfo
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.crash.unexplained import crash_verdict
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import SEVERITIES, Finding, Occurrence, text_of, verdict
from loaderwatch.detect.measures.progress import LOADER_PHASES, STEP_PHASES, TERMINAL, stack_of, trains_on
from loaderwatch.detect.measures.stacks import (
    Frame,
    code_line,
    collective,
    in_debugger,
    main_frames,
    saving,
    user_frame,
)
from loaderwatch.detect.measures.standstill import FEW_KNOWN_STEPS, goes_on
from loaderwatch.detect.measures.time_use import RECENT_S, Use, shares_of
from loaderwatch.detect.shared_thresholds import WARNING_RATIO
from loaderwatch.detect.window import RankWindow, RunWindow

# The phases of a worker that the message `awaited-worker` names.
_DOES: Final = ("idle", "fetch", "collate", "starting")


@dataclass(frozen=True)
class _Open:
    """An open span of a training process that lasts longer than usual."""

    rank: RankWindow
    span: SpanInfo
    age_s: float
    frames: Sequence[Frame]  # of a stack taken during the span, innermost first; empty without one

    @property
    def order(self) -> tuple[bool, bool, float]:
        """Return the sort key: a loader phase first, then a rank in no exchange, because others await it."""
        exchanges = self.span.phase == "backward" or collective(self.frames) is not None
        return self.span.phase in LOADER_PHASES, not exchanges, self.age_s


def watched(window: RunWindow) -> Verdict | None:
    """Return a verdict on the span that lasts longer than usual; None if there is none.

    The span may end in a moment, so this is no alert: detectors report what lasts. Left out is what a person
    does on purpose: a debugger, a prompt, or code outside the loops whose stack does not lead back to the
    loader.
    """
    spans = [item for _, rank in sorted(window.ranks.items()) if (item := _open(rank)) is not None]
    if not spans:
        return None
    item = max(spans, key=lambda item: item.order)
    rank = item.rank.rank if len(window.ranks) > 1 else None
    params: dict[str, Param] = {"rank": rank, "age_s": item.age_s, **_batch(item)}
    if item.span.phase == "wait":
        return verdict("info", "batch-awaited", None, **params, **_worker(item))
    line = code_line(user_frame(item.frames))
    place: dict[str, Param] = {
        "where": _place(item),
        "step": item.span.step or 0,
        "phase": item.span.phase_name,
    }
    return verdict("info", "standing", None, **params, **place, line=line)


def _open(rank: RankWindow) -> _Open | None:
    span = rank.span
    if span is None:
        return None
    # One step may call the model many times (evaluation, an endless search): count from the step's start.
    since_ns = span.since_ns if span.step_since_ns is None else span.step_since_ns
    age_s = goes_on(rank, since_ns)
    if age_s is None or span.wchan in TERMINAL:
        return None
    dump = stack_of(rank, -1, None)
    frames = main_frames(dump) if dump is not None and dump.taken_ns > since_ns else ()
    if in_debugger(frames) or not _is_to_go_on(rank, span, frames):
        return None
    return _Open(rank, span, age_s, frames)


def _is_to_go_on(rank: RankWindow, span: SpanInfo, frames: Sequence[Frame]) -> bool:
    """Whether the process should go on: outside loops, if it will train, saves, or is in a collective."""
    if span.phase == "outside":
        return trains_on(rank, span) or saving(frames) or collective(frames) is not None
    return span.phase not in STEP_PHASES or trains_on(rank, span)


def _place(item: _Open) -> str:
    """Return where the process is, as the message ``standing`` expects it."""
    span = item.span
    if span.phase == "outside":
        if trains_on(item.rank, span):
            return "between-steps" if item.rank.process.trains_without_loader else "between-passes"
        return "outside" if span.batches else "before-first-batch"
    if span.phase == "iter":
        return "iter"
    if span.phase == "teardown":
        return "teardown"
    if span.phase == "user":
        return "own-phase"
    info = _loader(item)
    return "at-batch" if info is not None and info.role != "train" else "step"


def _batch(item: _Open) -> dict[str, Param]:
    """Return the parameters of the message ``which-batch``; it names the loader if there are several."""
    info = _loader(item)
    return {
        "batch": item.span.batch,
        "loader": info.name if info is not None and info.name else None,
        "of_loader": len(item.rank.process.loaders) > 1 and info is not None,
    }


def _loader(item: _Open) -> LoaderInfo | None:
    return next((info for info in item.rank.process.loaders if info.loader == item.span.loader), None)


def _worker(item: _Open) -> dict[str, Param]:
    """Return the parameters of the message ``awaited-worker``; the worker is None if it is not known."""
    span, rank = item.span, item.rank
    worker = next(
        (w for w in rank.workers if w.worker == span.awaited_worker and w.loader in (None, span.loader)), None
    )
    if worker is None:
        return {"worker": None, "worker_is": None, "sample": None, "stream": False}
    stream = any(info.loader == worker.loader and info.iterable_dataset for info in rank.process.loaders)
    doing = worker.phase if worker.phase in _DOES else "busy"
    at_sample = worker.sample_index is not None
    return {
        "worker": worker.worker,
        "worker_is": "dead" if not worker.alive else "at-sample" if at_sample else doing,
        "sample": worker.sample_index,
        "stream": stream,
    }


UNMEASURED_S: Final = threshold(
    20.0, "s", "chosen: a process that iterates no loader for so long probably has the wrong one attached"
)
DIAGNOSED_S: Final = threshold(10.0, "s", "chosen: detectors need so long to be sure, without first batches")
FORECAST: Final = "running-out"
"""The code of findings about what will happen if the run goes on."""
URGENCY: Final = {"hung": 2, FORECAST: 1}
"""Codes that come before others of the same severity: training stands still, or is about to die."""
_INPUT: Final = "input-bound"  # a remark with this code names what the loop waits for
_TELLING: Final = ("fast-forward", "hung")  # remarks with these codes say why no training happens


def verdict_of(
    state: RunStatus,
    evidence: Callable[[], RunEvidence],
    occurrences: Sequence[Occurrence],
    *,
    silent_s: float | None = None,
    refused: str | None = None,
) -> Verdict:
    """Return the verdict that the page, the list of runs, messages and ``analyze`` show first.

    Args:
        state: "live", "lost", "finished" or "crashed".
        evidence: makes the evidence. Called only if no alert decides, because it may read the store.
        occurrences: the incidents or alerts of this attempt only.
        silent_s: seconds since the last news of a lost run, whose last verdict stays. None: the attempt ended
            without notice.
        refused: why the server cannot store what the run sends. None: it can.
    """
    if refused is not None:
        return verdict("critical", "server-cannot-store", reason=refused)
    if state == "lost":
        return (
            verdict("info", "attempt-ended-unheard")
            if silent_s is None
            else no_news(silent_s, last_said(evidence(), occurrences))
        )
    if state == "crashed":
        return crash_verdict(evidence().window, occurrences)
    if state == "finished":
        alerts = [occurrence for occurrence in occurrences if occurrence.finding.severity != "info"]
        return _at_its_end(alerts) if alerts else _by_numbers(evidence(), [])
    worst = _most_urgent([occurrence for occurrence in occurrences if occurrence.finding.ended_ns is None])
    return _by_numbers(evidence(), occurrences) if worst is None else _of(worst)


def _at_its_end(alerts: Sequence[Occurrence]) -> Verdict:
    """Return the verdict of a finished run: its gravest alert. An unfulfilled forecast is a remark."""
    came_true = [alert for alert in alerts if alert.finding.code != FORECAST]
    worst = max(came_true or alerts, key=lambda alert: _gravity(alert.finding))
    if came_true:
        return _of(worst, "finished-with-alert")
    return _of(worst, "finished-before-forecast", "info")


def last_said(run: RunEvidence, occurrences: Sequence[Occurrence]) -> Verdict:
    """Return a lost run's verdict at its last news. Alerts that only the silence closed count as open."""
    open_then = [
        occurrence
        for occurrence in occurrences
        if occurrence.finding.ended_ns is None or occurrence.finding.ended_ns >= run.window.now_ns
    ]
    worst = _most_urgent(open_then)
    return _by_numbers(run, occurrences) if worst is None else _of(worst)


def no_news(silent_s: float, last: Verdict | None) -> Verdict:
    """Return the verdict when the streamer stopped sending, which says nothing about the training.

    ``last`` is the verdict before the silence, None if it is not known yet.
    """
    if last is None:
        return verdict("info", "no-news", silent_s=silent_s, last=None, advice=None)
    grave = last.severity in ("warning", "critical")
    title, advice = (Text(last.rule, last.params, part) for part in ("title", "advice"))
    return verdict(
        last.severity if grave else "info",
        "no-news",
        last.finding_id,
        silent_s=silent_s,
        last=title,
        advice=advice if grave and last.advice else None,
    )


def _most_urgent(occurrences: Sequence[Occurrence]) -> Occurrence | None:
    """Return the alert that is shown first; remarks do not count."""
    return max(
        (occurrence for occurrence in occurrences if occurrence.finding.severity != "info"),
        key=lambda occurrence: (
            SEVERITIES[occurrence.finding.severity],
            URGENCY.get(occurrence.finding.code, 0),
            occurrence.finding.lost_s or 0.0,
        ),
        default=None,
    )


def _gravity(finding: Finding) -> tuple[int, float]:
    return SEVERITIES[finding.severity], finding.lost_s or 0.0


def _of(
    occurrence: Occurrence, rule: str = "verdict-of-alert", severity: VerdictSeverity | None = None
) -> Verdict:
    finding = occurrence.finding
    title, advice = text_of(finding, "title"), text_of(finding, "advice")
    return verdict(severity or finding.severity, rule, occurrence.id, title=title, advice=advice)


def _by_numbers(run: RunEvidence, occurrences: Sequence[Occurrence]) -> Verdict:
    """Return the verdict without an alert: a remark on why no training happens, else what the numbers say."""
    window = run.window
    telling = [
        occurrence
        for occurrence in occurrences
        if occurrence.finding.code in _TELLING and occurrence.finding.ended_ns is None
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
            return verdict("info", "finished-unmeasured")
        return _too_short(window, over=True) or verdict("ok", "finished")
    use, ranks = run.use, sum(rank.process.state == "live" for rank in window.ranks.values())
    share, speed = use.wait_ratio or 0.0, use.steps_per_s or 0.0
    if share * _in_loops_ratio(list(use.ranks.values())) >= WARNING_RATIO:
        judged = (
            occurrence
            for occurrence in occurrences
            if occurrence.finding.code == _INPUT and occurrence.finding.ended_ns is None
        )
        reported = next(judged, None)
        return _much_wait(window, share) if reported is None else _of(reported)
    if not _is_enough(list(use.ranks.values())):
        return _quiet(window, sum(rank_use.batches for rank_use in use.ranks.values()))
    costly = max(
        (occurrence for occurrence in occurrences if occurrence.finding.ended_ns is None),
        key=lambda occurrence: occurrence.finding.gain_ceiling_ratio or 0.0,
        default=None,
    )
    if costly is not None and (costly.finding.gain_ceiling_ratio or 0.0) >= WARNING_RATIO:
        return _of(costly)
    known_per_s = speed or None  # the speed is known a few seconds later
    return verdict("ok", "healthy", wait_ratio=share, steps_per_s=known_per_s, ranks=ranks)


def _is_enough(uses: Sequence[Use]) -> bool:
    """Whether the last half minute holds enough steps for a verdict: several, or a few long ones."""
    long = any(use.batches and use.wait_s + use.step_s >= DIAGNOSED_S for use in uses)
    return long or sum(use.batches for use in uses) >= FEW_KNOWN_STEPS


def _in_loops_ratio(uses: Sequence[Use]) -> float:
    """Return the share (0 to 1) of the last half minute in loops; the rest is own work between passes."""
    covered_s = sum(use.covered_s for use in uses)
    return min(1.0, sum(use.wait_s + use.step_s for use in uses) / covered_s) if covered_s > 0 else 1.0


def _much_wait(window: RunWindow, share: float) -> Verdict:
    """Return the verdict about a share of waiting that no detector has judged yet."""
    short = _too_short(window, over=False) if _steps(window) < FEW_KNOWN_STEPS else None
    if short is not None and short.severity == "info":
        return short
    return verdict("info", "waits-unjudged", wait_ratio=share)


def _steps(window: RunWindow) -> int:
    spans = [rank.span for rank in window.ranks.values() if rank.process.state == "live" and rank.span]
    return max((span.steps or span.batches for span in spans), default=0)


def _stepped_aside(unwatched: Sequence[RankWindow], ranks: int) -> Verdict:
    """Return the verdict after our hooks failed and stopped: the page stands still, not the training."""
    first = unwatched[0]
    return verdict(
        "info",
        "stepped-aside",
        rank=first.rank if ranks > 1 else None,
        others=len(unwatched) - 1,
        faults=first.process.faults,
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
    """Return why there is nothing to judge now; ``ended`` is the number of steps in the last half minute."""
    live = [rank for rank in window.ranks.values() if rank.process.state == "live" and rank.span is not None]
    if _unmeasured(live):
        return verdict("info", "unmeasured")
    steps = _steps(window)
    if steps < FEW_KNOWN_STEPS:
        return _too_short(window, over=False) or verdict("ok", "warming-up")
    ages = [
        (rank.made_ns - rank.span.since_ns) / 1e9
        for rank in live
        if rank.span and rank.span.phase == "outside"
    ]
    if ages and len(ages) == len(live):
        return verdict("ok", "outside-loop", age_s=min(ages), steps=steps)
    since_ns = {rank.rank: rank.made_ns - int(RECENT_S * 1e9) for rank in live}
    if ended or any((rank.steps["request_ns"] >= since_ns[rank.rank]).any() for rank in live):
        return verdict("ok", "few-steps-lately", steps=steps)
    return verdict("ok", "no-step-lately", within_s=RECENT_S, steps=steps)


def _too_short(window: RunWindow, *, over: bool) -> Verdict | None:
    """Return what a run that is too short for a diagnosis spent its time on.

    None if it was long enough or nothing is known. Unlike the detectors, this counts the first wait of an
    epoch, because that is most of a short run.
    """
    shares = [shares for rank in window.ranks.values() if (shares := shares_of(rank)) is not None]
    if not shares:
        return None
    elapsed_s = max(use.elapsed_s for use in shares)
    if elapsed_s >= DIAGNOSED_S or elapsed_s <= 0:
        return None
    wait_ratio = sum(use.wait_s / use.elapsed_s for use in shares if use.elapsed_s > 0) / len(shares)
    start_ratio = sum(use.start_s / use.elapsed_s for use in shares if use.elapsed_s > 0) / len(shares)
    much = wait_ratio + start_ratio >= WARNING_RATIO
    return verdict(
        "info" if much else "ok",
        "too-short",
        over=over,
        wait_ratio=wait_ratio,
        elapsed_s=elapsed_s,
        start_ratio=start_ratio if start_ratio >= WARNING_RATIO else None,
        needed_s=DIAGNOSED_S,
        much=much,
    )
