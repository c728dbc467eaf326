"""The newest windows of ended runs. Eight API answers use them, so the last few are cached for a while.

Each is built from the run's last minutes and sums over all of it (``window.replay``). Long runs cost more.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from loaderwatch.detect.evidence import DEFAULT_LIMITS, RunEvidence
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.store import deadline
from loaderwatch.server.store.deadline import Stopped
from loaderwatch.server.store.protocol import Store
from loaderwatch.server.window.replay import rebuild
from loaderwatch.server.window.totals import RunTotals

MOST_BYTES: Final = 256 * 2**20
"""Memory limit of cached windows in bytes. The newest one may be larger."""
KEPT_S: Final = 120.0
"""Seconds for which an unused window is cached."""


@dataclass(frozen=True)
class StoredWindow:
    """A run's newest window, or the window at an attempt's end, and its sums."""

    evidence: RunEvidence
    totals: RunTotals
    bytes: int

    @property
    def window(self) -> RunWindow:
        """Return the rows of the evidence."""
        return self.evidence.window


@dataclass
class _Kept:
    received_ns: int  # the run's at that time; a newer one makes the window void
    made: Future[StoredWindow] = field(default_factory=Future)
    asked_at: float = 0.0

    @property
    def bytes(self) -> int:
        return self.made.result().bytes if self.made.done() and self.made.exception() is None else 0


class StoredWindows:
    """Windows of stored runs. It is thread-safe; callers wait for a window that another thread builds."""

    def __init__(self, store: Store, limits: Limits = DEFAULT_LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int | None], _Kept] = {}  # last used is last

    def of(self, run_id: str, attempt: int | None = None) -> StoredWindow:
        """Return the window of an attempt (None: the newest) of a run that is not live.

        Raises:
            UnknownRun, StoreError, UnknownAttempt, Stopped
        """
        while True:
            try:
                return self._of(run_id, attempt)
            except Stopped:
                deadline.check()  # if the other thread gave up, this thread builds the window

    def _of(self, run_id: str, attempt: int | None) -> StoredWindow:
        received_ns = self._store.run(run_id).received_ns
        key = run_id, attempt
        with self._lock:
            kept = self._kept.pop(key, None)
            builds = kept is None or kept.received_ns != received_ns
            if kept is None or builds:
                kept = _Kept(received_ns)
            kept.asked_at = time.monotonic()
            self._kept[key] = kept
        if builds:
            try:
                kept.made.set_result(self._made(run_id, attempt))
            except BaseException as error:  # noqa: BLE001 - all callers that wait for this window get it
                with self._lock:
                    if self._kept.get(key) is kept:
                        del self._kept[key]
                kept.made.set_exception(error)
            self.forget()
        return deadline.result_of(kept.made)

    def forget(self) -> None:
        """Drop windows that were not used recently, and the oldest ones beyond the memory limit."""
        with self._lock:
            now, bytes_left = time.monotonic(), MOST_BYTES
            for newer_windows, (key, kept) in enumerate(reversed(list(self._kept.items()))):
                bytes_left -= kept.bytes
                if kept.made.done() and (now - kept.asked_at > KEPT_S or (bytes_left < 0 and newer_windows)):
                    del self._kept[key]

    def _made(self, run_id: str, attempt: int | None) -> StoredWindow:
        builder = rebuild(self._store, run_id, attempt)
        return StoredWindow(
            RunEvidence(builder.window(), self._limits), builder.totals(), builder.held_bytes()
        )
