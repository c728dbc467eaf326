"""Judges a stored or recorded run again. Windows and judge are the live server's, and so are the results."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

from loaderwatch.core.answers import Finding, RunStatus, Verdict
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.alert_book import shape
from loaderwatch.server.live.judge import Judge, limits_of
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.recordings.verdict_cache import state_of
from loaderwatch.server.store.protocol import Store, StoredAlert
from loaderwatch.server.window.replay import windows

Judged = tuple[list[Finding], Verdict | None]
"""Findings as in the API, newest first, and the verdict as on the page (None for a run without a window)."""


def judge_stored(
    store: Store, run_id: str, hang_after_s: float | None = None, attempt: int | None = None
) -> Judged:
    """Judge an attempt (None: the newest) of a stored run. ``hang_after_s`` None is the default limit.

    Raises:
        UnknownRun, StoreError, UnknownAttempt
    """
    run = store.run(run_id)
    state, silent_s = state_of(run, attempt, time.time_ns())
    over = run.state != "live" or attempt not in (None, run.attempt)
    looks = ((window, over) for window in windows(store, run_id, attempt=attempt))
    return _judged(run_id, looks, hang_after_s, state, silent_s)


def judge_recording(recorded: Recording, hang_after_s: float | None = None) -> Judged:
    """Judge a recording. ``hang_after_s`` None is the recording server's limit for hangs.

    Raises:
        WireError: an envelope is malformed.
    """
    limit_s = recorded.hang_after_s if hang_after_s is None else hang_after_s
    return _judged(recorded.run_id, recording.windows(recorded), limit_s)


def alerts_of(recorded: Recording) -> list[StoredAlert]:
    """Judge a recording without alerts, and return the alerts that a server would have stored.

    Raises:
        WireError: an envelope is malformed.
    """
    judge = Judge(recorded.run_id)
    _look(judge, recording.windows(recorded), recorded.hang_after_s)
    return judge.book.take_unsaved()


def _judged(
    run_id: str,
    looks: Iterable[tuple[RunWindow, bool]],
    hang_after_s: float | None,
    state: RunStatus | None = None,
    silent_s: float | None = None,
) -> Judged:
    """Judge ``looks``: windows in order of time, with whether the run was over. Only the last flag counts.

    ``state`` None is derived from the last window.
    """
    judge = Judge(run_id)
    last, over = _look(judge, looks, hang_after_s)
    if last is None:
        return [], None
    alerts = judge.alerts(last)  # the newest attempt counts if a recording has several
    verdict = verdict_of(
        state or (_end_of(last) if over else "live"), lambda: RunEvidence(last), alerts, silent_s=silent_s
    )
    return [shape(alert) for alert in alerts], verdict


def _look(
    judge: Judge, looks: Iterable[tuple[RunWindow, bool]], hang_after_s: float | None
) -> tuple[RunWindow | None, bool]:
    """Judge all ``looks``; return the last one, None if there is none."""
    limits = limits_of(hang_after_s)
    now_ns = time.time_ns()
    last, over = None, False
    for window, over in looks:  # noqa: B007 - the last ``over`` counts
        judge.begin(window, now_ns)
        judge.judge(window, detect(RunEvidence(window, limits, partial(judge.alerts, window))), now_ns)
        last = window
    if last is not None and over:
        judge.close(last.now_ns, now_ns)
    return last, over


def _end_of(window: RunWindow) -> RunStatus:
    """Return how a run ended: "crashed" if any process crashed."""
    crashed = any(rank.process.state == "crashed" for rank in window.ranks.values())
    return "crashed" if crashed else "finished"
