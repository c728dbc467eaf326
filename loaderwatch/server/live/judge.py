"""The judge, which turns a run's windows into alerts, in the same way for a live run, a stored one and a recording."""

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
from loaderwatch.server.window.outliers import STANDS_S


def limits_of(hang_after_s: float | None) -> Limits:
    """Return the detectors' limits; ``hang_after_s`` is the least age at which a phase may count as hung, None for the default."""
    return Limits() if hang_after_s is None else Limits(hang_floor_s=hang_after_s)


class Judge:
    """Turns the findings of one run's successive windows into alerts. It is not thread-safe; windows come in order of time."""

    def __init__(self, run_id: str, stored: Iterable[StoredAlert] = ()) -> None:
        self.book = AlertBook(run_id, stored)
        self._tracker = Tracker(run_id)
        self._tracker.restore(self.book.incidents())
        self._last: RunWindow | None = None

    def begin(self, window: RunWindow, now_ns: int) -> list[Announcement]:
        """Close all open alerts before the first window of a new attempt is judged; they ended with the attempt before."""
        last, self._last = self._last, window
        if window.attempt == 1 or (last is not None and last.attempt == window.attempt):
            return []
        if last is None and all(alert.opened_ns >= window.attempt_ns for alert in self.book.open_alerts()):
            return []  # the first window that this judge sees is within the attempt
        ended = self.close(window.attempt_ns, now_ns)
        return [replace(announcement, died=announcement.resolved) for announcement in ended]

    def judge(self, window: RunWindow, findings: list[Finding], now_ns: int) -> list[Announcement]:
        """Take in the detectors' findings in a window; return what people should be told now.

        ``now_ns`` is the reader's own time and decides about silences.
        """
        told = self.book.apply(self._tracker.update(findings, window.now_ns), now_ns)
        return [with_its_end(announcement, window) for announcement in told]

    def close(self, at_ns: int, now_ns: int) -> list[Announcement]:
        """Close everything that is open at ``at_ns``, when the run is over or has been silent for long."""
        return self.book.apply(self._tracker.close_all(at_ns), now_ns)

    def alerts(self, window: RunWindow) -> list[Alert]:
        """Return the alerts of the window's attempt, newest first."""
        return self.book.of_span((window.attempt_ns, END_OF_TIME_NS))


def stands(window: RunWindow) -> bool:
    """Whether a rank has been in the same phase for some seconds: a standstill may begin, which is told soon."""
    ranks: Iterable[RankWindow | SummedRank] = chain(window.ranks.values(), window.summed.values())
    return any(
        rank.process.state == "live"
        and rank.span is not None
        and rank.made_ns - rank.span.since_ns >= STANDS_S * 1e9
        for rank in ranks
    )


def with_its_end(announcement: Announcement, window: RunWindow) -> Announcement:
    """Mark an announcement of a resolved alert whose process died: the alert is over, but nothing got well."""
    rank = announcement.alert.finding.rank
    about = [one for number, one in window.ranks.items() if rank in (None, number)]
    died = announcement.resolved and any(one.process.state == "crashed" for one in about)
    return replace(announcement, died=died)
