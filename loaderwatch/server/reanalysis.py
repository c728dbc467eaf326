"""The detectors over a stored or recorded run, as the live server runs them: same windows, same tracker, same findings."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from loaderwatch.detect.families import detect
from loaderwatch.detect.tracker import Tracker
from loaderwatch.detect.window import RunWindow
from loaderwatch.server import recording
from loaderwatch.server.alerts import AlertBook, shape
from loaderwatch.server.live import Detector
from loaderwatch.server.recording import Recording
from loaderwatch.server.replay import windows
from loaderwatch.server.store.protocol import Store


def reanalyse(store: Store, run_id: str, detector: Detector = detect) -> list[dict[str, Any]]:
    """The findings of a stored run, shaped as the API gives them, newest first.

    Raises:
        UnknownRun, StoreError
    """
    over = store.run(run_id).state != "live"
    return _findings(run_id, ((window, over) for window in windows(store, run_id)), detector)


def reanalyse_recording(recorded: Recording, detector: Detector = detect) -> list[dict[str, Any]]:
    """The same for a recording.

    Raises:
        WireError: an envelope is malformed.
    """
    return _findings(recorded.run_id, recording.windows(recorded), detector)


def _findings(
    run_id: str, looks: Iterable[tuple[RunWindow, bool]], detector: Detector
) -> list[dict[str, Any]]:
    """``looks``: windows in order of time, each with whether the run was over; only the last one's word counts."""
    book = AlertBook(run_id)
    tracker = Tracker(run_id)
    now_ns = time.time_ns()
    last_ns, over = 0, False
    for window, is_over in looks:
        book.apply(tracker.update(detector(window), window.now_ns), now_ns)
        last_ns, over = window.now_ns, is_over
    if over:
        book.apply(tracker.close_all(last_ns), now_ns)
    return [shape(alert) for alert in book.newest_first()]
