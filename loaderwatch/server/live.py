"""One run while it is live: envelopes in; verdict, summary, findings, alerts, notices and stack requests out."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from loaderwatch.core.wire import Envelope, Notice, StackRequest
from loaderwatch.detect.families import detect
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.tracker import Changes, Incident, Tracker
from loaderwatch.detect.verdict import Verdict, verdict
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts import AlertBook, Announcement, shape
from loaderwatch.server.answers import encode_json
from loaderwatch.server.events import RunState
from loaderwatch.server.replay import rebuild
from loaderwatch.server.store.protocol import Store, StoreError
from loaderwatch.server.summary import state_now, summary_of
from loaderwatch.server.windows import WindowBuilder
from loaderwatch.server.wording import ended_verdict, lost_verdict

_log = logging.getLogger(__name__)

_SAVE_INTERVAL_S: Final = 10.0  # for numbers that only grow; a change of state is saved at once
_STACKS_AGAIN_S: Final = 10.0

Detector = Callable[[RunWindow], list[Finding]]


class IncidentTracker(Protocol):
    """What keeps findings of successive windows together; ``detect.tracker.Tracker`` is the one."""

    def restore(self, incidents: Iterable[Incident]) -> None:
        """Take up what was open."""

    def update(self, findings: Sequence[Finding], now_ns: int) -> Changes:
        """Take in the findings of one window."""

    def close_all(self, now_ns: int) -> Changes:
        """Close what is open."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one tick brought."""

    summary: dict[str, Any]
    state: RunState
    announcements: list[Announcement]


class LiveRun:
    """A run that is being heard of. ``take``, ``receipt`` and the requests come from the event loop, ``tick`` from a worker thread, one at a time."""

    def __init__(
        self,
        run_id: str,
        store: Store,
        *,
        is_new: bool = False,
        detector: Detector = detect,
        tracker: IncidentTracker | None = None,
        describe: Callable[[Announcement], str] | None = None,
    ) -> None:
        self.run_id = run_id
        self._store = store
        self._is_new = is_new  # its first envelope is in the inbox, the store holds nothing before that
        self._detector = detector
        self._tracker: IncidentTracker = tracker or Tracker(run_id)
        self._describe = describe
        self._lock = threading.Lock()  # book and window: tick against ack, silence and reads
        self._inbox: deque[Envelope] = deque()
        self._builder: WindowBuilder | None = None
        self._book: AlertBook | None = None
        self._window: RunWindow | None = None
        self._verdict: Verdict | None = None
        self._saved_at = 0.0
        self._notices: dict[str, list[Notice]] = {}  # by host
        self._stacks_wanted: set[int] = set()
        self._stacks_asked_at: dict[int, float] = {}
        self.heard_at = time.monotonic()
        self.latest: Tick | None = None
        self.ended = False
        self.detections = 0
        self.detect_s = 0.0
        self.detector_faults = 0
        self._last_fault = ""

    # -- from the event loop -------------------------------------------------------------------------------------

    def take(self, envelope: Envelope) -> None:
        """An envelope that is now on disk."""
        self._inbox.append(envelope)
        self.heard_at = time.monotonic()

    @property
    def has_news(self) -> bool:
        """Whether an envelope came since the last tick."""
        return bool(self._inbox)

    def want_stacks(self, rank: int | None) -> list[int]:
        """Ask for fresh stacks of a rank, or of all; returns the ranks asked for."""
        window = self._window
        known = sorted(window.ranks) if window else [0 if rank is None else rank]
        wanted = [r for r in known if rank is None or r == rank]
        self._stacks_wanted.update(wanted)
        return wanted

    def receipt(self, host: str) -> tuple[list[StackRequest], list[Notice]]:
        """What the streamer of this host is to do: each thing is handed out once."""
        mine = [rank for rank in self._stacks_wanted if self._host_of(rank) in (host, None)]
        self._stacks_wanted.difference_update(mine)
        return [StackRequest(rank=rank) for rank in mine], self._notices.pop(host, [])

    # -- from a worker thread ------------------------------------------------------------------------------------

    def tick(self, now_ns: int, *, detecting: bool) -> Tick:
        """Take in what arrived and say how the run is. ``now_ns`` is this server's UTC clock.

        Raises:
            StoreError, UnknownRun: the run cannot be read (on the first tick) any more.
        """
        with self._lock:
            builder, book = self._load()
            news = False
            while self._inbox:
                builder.add(self._inbox.popleft())
                news = True
            window = builder.window() if news or self._window is None else self._window
            self._window = window
            base = state_now(self._store.run(self.run_id), now_ns)
            self.ended = base in ("finished", "crashed")
            announcements: list[Announcement] = []
            if detecting or self._verdict is None or self.ended:
                announcements = self._detect(window, book, now_ns)
                if self.ended and not self._inbox:
                    announcements += book.apply(self._tracker.close_all(window.now_ns), now_ns)
                self._verdict = verdict(window, [alert.finding for alert in book.open_alerts()])
            for announcement in announcements:
                self._leave_notice(announcement, window)
            self._save(book)
            self.latest = self._describe_now(window, builder, book, base, announcements)
            return self.latest

    def change(self, action: Callable[[AlertBook], Any]) -> Any:
        """Do something to the alerts (acknowledge, silence) and save it before returning."""
        with self._lock:
            _, book = self._load()
            result = action(book)
            self._save(book)
            return result

    def findings(self) -> list[dict[str, Any]]:
        """As ``GET /runs/{run}/findings``."""
        with self._lock:
            _, book = self._load()
            return [shape(alert) for alert in book.newest_first()]

    def window(self) -> RunWindow | None:
        """The newest window, None before the first tick."""
        return self._window

    def firing(self) -> int:
        """Alerts firing now, remarks excluded."""
        book = self._book
        return sum(alert.pages and alert.state == "firing" for alert in book.open_alerts()) if book else 0

    def close(self) -> None:
        """Save what is not saved."""
        with self._lock:
            if self._book is not None:
                self._save(self._book, now=True)

    def let_go(self, now_ns: int) -> list[Announcement]:
        """Nobody has heard of the run for long: resolve what is open, since nothing can confirm it any more."""
        with self._lock:
            if self._book is None or self._window is None:
                return []
            announcements = self._book.apply(self._tracker.close_all(self._window.now_ns), now_ns)
            self._save(self._book, now=True)
            return announcements

    # -- inside --------------------------------------------------------------------------------------------------

    def _load(self) -> tuple[WindowBuilder, AlertBook]:
        """On first use: what the store knows of the run, so that a restart of the server is no new beginning."""
        if self._builder is None or self._book is None:
            if self._is_new:
                self._builder, self._book = WindowBuilder(self.run_id), AlertBook(self.run_id)
                return self._builder, self._book
            self._builder = rebuild(self._store, self.run_id)
            self._book = AlertBook(self.run_id, self._store.alerts(self.run_id))
            self._tracker.restore(self._book.open_incidents())
        return self._builder, self._book

    def _detect(self, window: RunWindow, book: AlertBook, now_ns: int) -> list[Announcement]:
        began = time.perf_counter()
        try:
            findings = self._detector(window)
        except Exception as fault:  # noqa: BLE001 - a detector that fails must not hide the run: its numbers go on
            self._report(fault)
            return []
        changes = self._tracker.update(findings, window.now_ns)
        announcements = book.apply(changes, now_ns)
        self._ask_for_stacks(book)
        self.detections += 1
        self.detect_s += time.perf_counter() - began
        return announcements

    def _report(self, fault: Exception) -> None:
        self.detector_faults += 1
        text = repr(fault)
        if text != self._last_fault:  # once a second for hours helps nobody
            self._last_fault = text
            _log.error("run %s: a detector failed: %s", self.run_id, text, exc_info=fault)

    def _ask_for_stacks(self, book: AlertBook) -> None:
        now = time.monotonic()
        for alert in book.open_alerts():
            rank = alert.finding.rank
            if alert.finding.code != "hung" or rank is None or alert.finding.stacks:
                continue
            if now - self._stacks_asked_at.get(rank, -_STACKS_AGAIN_S) >= _STACKS_AGAIN_S:
                self._stacks_asked_at[rank] = now
                self._stacks_wanted.add(rank)

    def _leave_notice(self, announcement: Announcement, window: RunWindow) -> None:
        if self._describe is None or not window.ranks:
            return
        named = announcement.alert.finding.rank
        rank = named if named is not None and named in window.ranks else min(window.ranks)
        notice = Notice(rank=rank, text=self._describe(announcement))
        self._notices.setdefault(window.ranks[rank].host, []).append(notice)

    def _save(self, book: AlertBook, *, now: bool = False) -> None:
        if not (now or book.urgent or time.monotonic() - self._saved_at > _SAVE_INTERVAL_S):
            return
        unsaved = book.take_unsaved()
        if not unsaved:
            return
        try:
            self._store.save_alerts(self.run_id, unsaved)
        except StoreError as error:
            _log.warning("run %s: alerts are not saved yet: %s", self.run_id, error)
            book.put_back(unsaved)
        self._saved_at = time.monotonic()

    def _describe_now(
        self,
        window: RunWindow,
        builder: WindowBuilder,
        book: AlertBook,
        base: str,
        announcements: list[Announcement],
    ) -> Tick:
        hung = any(alert.finding.code == "hung" and alert.pages for alert in book.open_alerts())
        state = "hung" if base == "live" and hung else base
        summary = summary_of(
            window,
            builder.totals(),
            state=state,
            verdict=self._verdict_json(book, base, time.monotonic() - self.heard_at),
        )
        findings = [shape(alert, stack_texts=False) for alert in book.newest_first()]
        newest_at = window.now_ns / 1e9
        return Tick(
            summary,
            RunState(encode_json(summary), encode_json(findings), newest_at),
            announcements,
        )

    def _verdict_json(self, book: AlertBook, base: str, silent_s: float) -> dict[str, Any] | None:
        if base == "lost":
            return lost_verdict(silent_s)
        if self.ended:
            ended = ended_verdict(base, book.newest_first())
            if ended is not None:
                return ended
        found = self._verdict
        if found is None:
            return None
        alert = book.by_key(found.key) if found.key else None
        return {
            "severity": found.severity,
            "title": found.title,
            "advice": found.advice,
            "finding_id": alert.id if alert else None,
        }

    def _host_of(self, rank: int) -> str | None:
        window = self._window
        found = window.ranks.get(rank) if window else None
        return found.host if found else None
