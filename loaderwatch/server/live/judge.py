"""The judge turns a run's windows into alerts, in the same way for live runs, stored runs and recordings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.incidents.tracker import Tracker
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow, RunWindow, SummedRank
from loaderwatch.server.alerts.alert_book import Alert, AlertBook, Announcement
from loaderwatch.server.store.protocol import StoredAlert
from loaderwatch.server.window.detailed_hosts import STANDS_S


def limits_of(hang_after_s: float | None) -> Limits:
    """Return the detectors' limits; ``hang_after_s`` is the least age of a hung phase (None: default)."""
    return Limits() if hang_after_s is None else Limits(hang_floor_s=hang_after_s)


class Judge:
    """Turns the findings of a run's windows, in order of time, into alerts. It is not thread-safe."""

    def __init__(self, run_id: str, stored: Iterable[StoredAlert] = ()) -> None:
        self.book = AlertBook(run_id, stored)
        self._tracker = Tracker(run_id)
        self._tracker.restore(self.book.incidents())
        self._last: RunWindow | None = None

    def begin(self, window: RunWindow, now_ns: int) -> list[Announcement]:
        """Close all open alerts before a new attempt's first window: they ended with the previous attempt."""
        last, self._last = self._last, window
        if window.attempt == 1 or (last is not None and last.attempt == window.attempt):
            return []
        if last is None and all(alert.opened_ns >= window.attempt_ns for alert in self.book.open_alerts()):
            return []  # this judge's first window lies within the attempt
        ended = self.close(window.attempt_ns, now_ns)
        return [replace(announcement, died=announcement.resolved) for announcement in ended]

    def judge(self, window: RunWindow, findings: list[Finding], now_ns: int) -> list[Announcement]:
        """Apply the detectors' findings in a window; return the announcements for people.

        ``now_ns`` is the reader's own time and decides about silences.
        """
        announcements = self.book.apply(self._tracker.update(findings, window.now_ns), now_ns)
        return [with_its_end(announcement, window) for announcement in announcements]

    def close(self, at_ns: int, now_ns: int) -> list[Announcement]:
        """Close everything open at ``at_ns``, because the run is over or was silent for long."""
        return self.book.apply(self._tracker.close_all(at_ns), now_ns)

    def alerts(self, window: RunWindow) -> list[Alert]:
        """Return the alerts of the window's attempt, newest first."""
        return self.book.of_span((window.attempt_ns, END_OF_TIME_NS))


def stands(window: RunWindow) -> bool:
    """Whether a rank has been in one phase for some seconds, so that a standstill may need a quick report."""
    ranks: Iterable[RankWindow | SummedRank] = chain(window.ranks.values(), window.summed.values())
    return any(
        rank.process.state == "live"
        and rank.span is not None
        and rank.made_ns - rank.span.since_ns >= STANDS_S * 1e9
        for rank in ranks
    )


def with_its_end(announcement: Announcement, window: RunWindow) -> Announcement:
    """Mark an announcement of a resolved alert if its process died: nothing recovered then."""
    rank = announcement.alert.finding.rank
    affected = [rank_window for number, rank_window in window.ranks.items() if rank in (None, number)]
    died = announcement.resolved and any(rank_window.process.state == "crashed" for rank_window in affected)
    return replace(announcement, died=died)
