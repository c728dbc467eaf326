"""The detectors over a stored run, as the live server runs them: same windows, same tracker, same findings."""

from __future__ import annotations

import time
from typing import Any

from loaderwatch.detect.families import detect
from loaderwatch.detect.tracker import Tracker
from loaderwatch.server.alerts import AlertBook, shape
from loaderwatch.server.live import Detector
from loaderwatch.server.replay import windows
from loaderwatch.server.store.protocol import Store


def reanalyse(store: Store, run_id: str, detector: Detector = detect) -> list[dict[str, Any]]:
    """The findings of a stored run, shaped as the API gives them, newest first.

    Raises:
        UnknownRun, StoreError
    """
    book = AlertBook(run_id)
    tracker = Tracker(run_id)
    now_ns = time.time_ns()
    last_ns = None
    for window in windows(store, run_id):
        book.apply(tracker.update(detector(window), window.now_ns), now_ns)
        last_ns = window.now_ns
    if last_ns is not None and store.run(run_id).state != "live":
        book.apply(tracker.close_all(last_ns), now_ns)
    return [shape(alert) for alert in book.newest_first()]
