"""Judges a stored or recorded run anew, as the live server does: same windows, same judge, and so the same findings and verdict."""

from __future__ import annotations

import time
from collections.abc import Iterable

from loaderwatch.core.answers import Finding, RunStatus, Verdict
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.book import shape
from loaderwatch.server.live.judge import Judge, detector
from loaderwatch.server.live.replay import windows
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.recordings.verdict_cache import state_of
from loaderwatch.server.store.protocol import Store

Judged = tuple[list[Finding], Verdict | None]
"""Findings as the API gives them, newest first, and the verdict as the page would give it; None of a run without a window."""


def judge_stored(
    store: Store, run_id: str, hang_after_s: float | None = None, attempt: int | None = None
) -> Judged:
    """Judge an attempt of a stored run (None: the newest); ``hang_after_s`` is the limit for hangs, None for the default.

    Raises:
        UnknownRun, StoreError, UnknownAttempt
    """
    run = store.run(run_id)
    state, silent_s = state_of(run, attempt, time.time_ns())
    over = run.state != "live" or attempt not in (None, run.attempt)
    looks = ((window, over) for window in windows(store, run_id, attempt=attempt))
    return _judged(run_id, looks, hang_after_s, state, silent_s)


def judge_recording(recorded: Recording, hang_after_s: float | None = None) -> Judged:
    """Judge a recording; ``hang_after_s`` is the limit for hangs, None for the one of its server.

    Raises:
        WireError: an envelope is malformed.
    """
    limit_s = recorded.hang_after_s if hang_after_s is None else hang_after_s
    return _judged(recorded.run_id, recording.windows(recorded), limit_s)


def _judged(
    run_id: str,
    looks: Iterable[tuple[RunWindow, bool]],
    hang_after_s: float | None,
    state: RunStatus | None = None,
    silent_s: float | None = None,
) -> Judged:
    """Judge ``looks``: windows in order of time, each with whether the run was over, of which only the last one's counts.

    Without a ``state`` the last window tells it.
    """
    judge, detect = Judge(run_id), detector(hang_after_s)
    now_ns = time.time_ns()
    last, over = None, False
    for window, over in looks:  # noqa: B007 - the last word counts
        judge.begin(window, now_ns)
        judge.judge(window, detect(window), now_ns)
        last = window
    if last is None:
        return [], None
    if over:
        judge.close(last.now_ns, now_ns)
    alerts = judge.alerts(last)  # of several attempts in a recording the newest counts
    said = verdict_of(state or (_end_of(last) if over else "live"), lambda: last, alerts, silent_s=silent_s)
    return [shape(alert) for alert in alerts], said


def _end_of(window: RunWindow) -> RunStatus:
    """Return how a run ended whose processes have all ended: "crashed" if one of them crashed."""
    crashed = any(rank.process.state == "crashed" for rank in window.ranks.values())
    return "crashed" if crashed else "finished"
