"""Runs the detectors over a stored or recorded run as the live server does: same windows, same tracker, same findings."""

from __future__ import annotations

import time
from collections.abc import Iterable

from loaderwatch.core.answers import Finding, Verdict
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.book import shape
from loaderwatch.server.live.judge import Detector, Judge
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.recordings.replay import windows
from loaderwatch.server.recordings.verdict_cache import end_of
from loaderwatch.server.store.protocol import Store


def reanalyse(
    store: Store, run_id: str, detector: Detector = detect, attempt: int | None = None
) -> list[Finding]:
    """Return the findings of an attempt of a stored run (None: the newest), shaped as the API gives them, newest first.

    Raises:
        UnknownRun, StoreError, UnknownAttempt
    """
    run = store.run(run_id)
    over = run.state != "live" or attempt not in (None, run.attempt)
    looks = ((window, over) for window in windows(store, run_id, attempt=attempt))
    return _judged(run_id, looks, detector)[0]


def reanalyse_recording(recorded: Recording, detector: Detector = detect) -> list[Finding]:
    """Return the findings of a recording in the same shape.

    Raises:
        WireError: an envelope is malformed.
    """
    return judge_recording(recorded, detector)[0]


def judge_recording(recorded: Recording, detector: Detector = detect) -> tuple[list[Finding], Verdict | None]:
    """Return a recording's findings, and its verdict as the page would give it.

    Raises:
        WireError: an envelope is malformed.
    """
    return _judged(recorded.run_id, recording.windows(recorded), detector)


def _judged(
    run_id: str, looks: Iterable[tuple[RunWindow, bool]], detector: Detector
) -> tuple[list[Finding], Verdict | None]:
    """Judge ``looks``: windows in order of time, each with whether the run was over, of which only the last one's counts."""
    judge = Judge(run_id)
    now_ns = time.time_ns()
    last, over = None, False
    for window, over in looks:  # noqa: B007 - the last word counts
        judge.begin(window, now_ns)
        judge.judge(window, detector(window), now_ns)
        last = window
    if last is None:
        return [], None
    if over:
        judge.close(last.now_ns, now_ns)
    alerts = judge.alerts(last)  # of several attempts in a recording the newest counts
    said = verdict_of(end_of(last) if over else "live", lambda: last, alerts)
    return [shape(alert) for alert in alerts], said
