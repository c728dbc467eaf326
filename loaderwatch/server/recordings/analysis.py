"""The detectors over a stored or recorded run, as the live server runs them: same windows, same tracker, same findings."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.incidents.tracker import Tracker
from loaderwatch.detect.incidents.verdict import verdict
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.book import AlertBook, shape
from loaderwatch.server.live.run import Detector
from loaderwatch.server.recordings import recording
from loaderwatch.server.recordings.recording import Recording
from loaderwatch.server.recordings.replay import windows
from loaderwatch.server.recordings.verdict_cache import verdict_of_ended
from loaderwatch.server.store.protocol import Store


def reanalyse(
    store: Store, run_id: str, detector: Detector = detect, attempt: int | None = None
) -> list[dict[str, Any]]:
    """The findings of an attempt of a stored run (None: the newest), shaped as the API gives them, newest first.

    Raises:
        UnknownRun, StoreError, UnknownAttempt
    """
    run = store.run(run_id)
    over = run.state != "live" or attempt not in (None, run.attempt)
    looks = ((window, over) for window in windows(store, run_id, attempt=attempt))
    return _judged(run_id, looks, detector)[0]


def reanalyse_recording(recorded: Recording, detector: Detector = detect) -> list[dict[str, Any]]:
    """The same for a recording.

    Raises:
        WireError: an envelope is malformed.
    """
    return judge_recording(recorded, detector)[0]


def judge_recording(
    recorded: Recording, detector: Detector = detect
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """A recording's findings, and its verdict as the page would give it.

    Raises:
        WireError: an envelope is malformed.
    """
    return _judged(recorded.run_id, recording.windows(recorded), detector)


def _judged(
    run_id: str, looks: Iterable[tuple[RunWindow, bool]], detector: Detector
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """``looks``: windows in order of time, each with whether the run was over; only the last one's word counts."""
    book = AlertBook(run_id)
    tracker = Tracker(run_id)
    now_ns = time.time_ns()
    last, over = None, False
    for window, is_over in looks:
        if (
            last is not None and window.attempt != last.attempt
        ):  # a recording over several: the newest is judged
            book, tracker = AlertBook(run_id), Tracker(run_id)
        book.apply(tracker.update(detector(window), window.now_ns), now_ns)
        last, over = window, is_over
    if last is None:
        return [], None
    if over:
        book.apply(tracker.close_all(last.now_ns), now_ns)
    return [shape(alert) for alert in book.newest_first()], _verdict(last, book, over)


def _verdict(window: RunWindow, book: AlertBook, over: bool) -> dict[str, Any]:
    if over:
        return verdict_of_ended(window, book.newest_first())
    found = verdict(window, [alert.finding for alert in book.open_alerts()])
    alert = book.by_key(found.key) if found.key else None
    return {
        "severity": found.severity,
        "title": found.title,
        "advice": found.advice,
        "finding_id": alert.id if alert else None,
    }
