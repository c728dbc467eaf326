"""A cache of the verdicts of ended runs in a file beside the runs, so that a list of hundreds of runs opens none of their files."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.answers import RunStatus, Verdict
from loaderwatch.core.files import write_atomically
from loaderwatch.detect.incidents.verdict import verdict_of
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.alerts.book import AlertBook
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.recordings.replay import rebuild
from loaderwatch.server.store.protocol import Store, StoredRun, StoreError, UnknownRun

_log = logging.getLogger(__name__)

_OVER = ("finished", "crashed")
_Known = dict[str, tuple[int, Verdict | None]]
_decode: Final = msgspec.json.Decoder(_Known).decode


class Verdicts:
    """The verdicts of ended runs. Without the file at ``path`` they are made again from the runs' alerts."""

    def __init__(self, store: Store, path: Path | None = None) -> None:
        self._store = store
        self._path = path
        self._lock = threading.Lock()
        self._known: _Known = _read(path) if path is not None else {}
        self._changed = False

    def of(self, run: StoredRun, now_ns: int, deadline: float) -> Verdict | None:
        """Return the verdict of a run that is not live.

        It is None, too, when the run's file would have to be opened and ``deadline`` (monotonic) has passed.
        """
        if state_now(run, now_ns) not in _OVER:
            return self._quietly(run, now_ns)
        known = self._known.get(run.run_id)
        if known is not None and known[0] == run.received_ns:
            return known[1]
        if time.monotonic() > deadline:
            return None
        verdict = self._quietly(run, now_ns)
        self._keep(run, verdict)
        return verdict

    def keep(self, run_id: str, verdict: Verdict | None) -> None:
        """Keep the verdict of a run that has just ended."""
        try:
            self._keep(self._store.run(run_id), verdict)
        except (StoreError, UnknownRun):
            return
        self.save()

    def save(self, runs: Iterable[StoredRun] | None = None) -> None:
        """Write new verdicts to the file; drop those of runs that are not in ``runs`` any more."""
        with self._lock:
            if runs is not None:
                there = {run.run_id for run in runs}
                self._known = {run_id: known for run_id, known in self._known.items() if run_id in there}
            if not self._changed or self._path is None:
                return
            self._changed = False
            try:
                write_atomically(self._path, msgspec.json.encode(self._known))
            except OSError as error:
                _log.warning("%s could not be written: %s", self._path, error)

    def _keep(self, run: StoredRun, verdict: Verdict | None) -> None:
        with self._lock:
            self._known[run.run_id] = (run.received_ns, verdict)
            self._changed = True

    def _quietly(self, run: StoredRun, now_ns: int) -> Verdict | None:
        try:
            return stored_verdict(run, self._store, now_ns)
        except (StoreError, UnknownRun) as error:  # one unreadable file must not hide the other runs
            _log.warning("run %s has no verdict: %s", run.run_id, error)
            return None


def stored_verdict(run: StoredRun, store: Store, now_ns: int) -> Verdict | None:
    """Return the verdict of a run that is not live from the store; None if the summary has to make one from its numbers.

    Raises:
        StoreError, UnknownRun: its alerts cannot be read.
    """
    state = state_now(run, now_ns)
    if state == "live":
        return None
    if state == "lost":  # this needs nothing of the run's file
        alerts = []
    else:
        alerts = AlertBook(run.run_id, store.alerts(run.run_id)).of_span(run.span_of(None))
    silent_s = (now_ns - run.received_ns) / 1e9
    return verdict_of(state, lambda: rebuild(store, run.run_id).window(), alerts, silent_s=silent_s)


def attempt_verdict(run: StoredRun, store: Store, attempt: int) -> Verdict:
    """Return the verdict of an earlier attempt.

    Raises:
        StoreError, UnknownRun, UnknownAttempt
    """
    alerts = AlertBook(run.run_id, store.alerts(run.run_id)).of_span(run.span_of(attempt))
    state = next(one.state for one in run.earlier if one.number == attempt)
    return verdict_of(state, lambda: rebuild(store, run.run_id, attempt).window(), alerts)


def end_of(window: RunWindow) -> RunStatus:
    """Return how a run ended whose processes have all ended: "crashed" if one of them crashed."""
    crashed = any(rank.process.state == "crashed" for rank in window.ranks.values())
    return "crashed" if crashed else "finished"


def _read(path: Path) -> _Known:
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        _log.warning("%s is not readable (%s); verdicts are made again", path, error)
        return {}
