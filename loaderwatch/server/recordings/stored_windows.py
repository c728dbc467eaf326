"""The newest windows of runs that are over, of which eight answers are made: the last few are kept for a while.

Each is made from the run's last minutes and from sums over all of it (``window.replay``), whose cost grows with the run's length.
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
"""Memory of the windows that are kept; the newest is whatever it takes."""
KEPT_S: Final = 120.0
"""How long a window is kept that nobody asks for."""


@dataclass(frozen=True)
class StoredWindow:
    """A run's newest window, or that at the end of an attempt, and its sums."""

    evidence: RunEvidence
    totals: RunTotals
    bytes: int

    @property
    def window(self) -> RunWindow:
        """Return the rows that the evidence is of."""
        return self.evidence.window


@dataclass
class _Kept:
    received_ns: int  # the run's then: news make it void
    made: Future[StoredWindow] = field(default_factory=Future)
    asked_at: float = 0.0

    @property
    def bytes(self) -> int:
        return self.made.result().bytes if self.made.done() and self.made.exception() is None else 0


class StoredWindows:
    """Windows of stored runs. It is thread-safe; who asks for one that is being made waits for it."""

    def __init__(self, store: Store, limits: Limits = DEFAULT_LIMITS) -> None:
        self._store = store
        self._limits = limits
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int | None], _Kept] = {}  # the one asked for last comes last

    def of(self, run_id: str, attempt: int | None = None) -> StoredWindow:
        """Return the window of an attempt (None: the newest) of a run that is not live.

        Raises:
            UnknownRun, StoreError, UnknownAttempt, Stopped
        """
        while True:
            try:
                return self._of(run_id, attempt)
            except Stopped:
                deadline.check()  # else whoever made it has given up, and this one makes it

    def _of(self, run_id: str, attempt: int | None) -> StoredWindow:
        received_ns = self._store.run(run_id).received_ns
        key = run_id, attempt
        with self._lock:
            kept = self._kept.pop(key, None)
            makes = kept is None or kept.received_ns != received_ns
            if kept is None or makes:
                kept = _Kept(received_ns)
            kept.asked_at = time.monotonic()
            self._kept[key] = kept
        if makes:
            try:
                kept.made.set_result(self._made(run_id, attempt))
            except BaseException as error:  # noqa: BLE001 - whatever it is, all who wait for this window get it
                with self._lock:
                    if self._kept.get(key) is kept:
                        del self._kept[key]
                kept.made.set_exception(error)
            self.forget()
        return deadline.result_of(kept.made)

    def forget(self) -> None:
        """Drop what nobody has asked for lately, and the oldest of what takes too much memory."""
        with self._lock:
            now, left = time.monotonic(), MOST_BYTES
            for number, (key, kept) in enumerate(reversed(list(self._kept.items()))):
                left -= kept.bytes
                if kept.made.done() and (now - kept.asked_at > KEPT_S or (left < 0 and number)):
                    del self._kept[key]

    def _made(self, run_id: str, attempt: int | None) -> StoredWindow:
        builder = rebuild(self._store, run_id, attempt)
        return StoredWindow(
            RunEvidence(builder.window(), self._limits), builder.totals(), builder.held_bytes()
        )
