"""A cache of ended runs' verdicts in a file beside the runs, so that a list of runs opens no run's file."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.answers import RunStatus, Verdict
from loaderwatch.core.files import read_own, write_atomically
from loaderwatch.core.wire import UNDECODABLE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.incidents.verdict import last_said, no_news, verdict_of
from loaderwatch.server.alerts.alert_book import Alert, AlertBook
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.store.protocol import Store, StoredRun, StoreError, UnknownRun
from loaderwatch.server.window.replay import rebuild

_log = logging.getLogger(__name__)

_OVER = ("finished", "crashed")
_Known = dict[str, tuple[int, Verdict | None]]
_decode: Final = msgspec.json.Decoder(_Known).decode


class Verdicts:
    """The verdicts of ended runs. Without the file at ``path``, they are derived from the runs' alerts."""

    def __init__(self, store: Store, path: Path | None = None) -> None:
        self._store = store
        self._path = path
        self._lock = threading.Lock()
        self._known: _Known = _read(path) if path is not None else {}
        self._changed = False
        self._last: _Known = {}  # of lost runs: the last verdict

    def of(self, run: StoredRun, now_ns: int, deadline: float) -> Verdict | None:
        """Return the verdict of a run that is not live, None for a live one.

        It is also None if the run's file would have to be opened after ``deadline`` (monotonic).
        """
        state = state_now(run, now_ns)
        if state == "live":
            return None
        if state not in _OVER:
            return no_news((now_ns - run.received_ns) / 1e9, self._last_said(run, deadline))
        known = self._known.get(run.run_id)
        if known is not None and known[0] == run.received_ns and (known[1] is None or known[1].rule):
            return known[1]  # one without a rule comes from a version that wrote English text only
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
        """Write new verdicts to the file. Drop those of runs that are missing in ``runs``."""
        with self._lock:
            if runs is not None:
                run_ids = {run.run_id for run in runs}
                self._known = {run_id: known for run_id, known in self._known.items() if run_id in run_ids}
                self._last = {run_id: known for run_id, known in self._last.items() if run_id in run_ids}
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

    def _last_said(self, run: StoredRun, deadline: float) -> Verdict | None:
        """Return a lost run's last verdict before the silence; None if its file cannot be opened in time."""
        known = self._last.get(run.run_id)
        if known is None or known[0] != run.received_ns:
            if time.monotonic() > deadline:
                return None
            try:
                evidence = RunEvidence(rebuild(self._store, run.run_id).window())
                verdict = last_said(evidence, stored_alerts(run, self._store))
            except (StoreError, UnknownRun, *UNDECODABLE) as error:
                _log.warning("run %s: what was said last cannot be read: %s", run.run_id, error)
                verdict = None
            known = (run.received_ns, verdict)
            with self._lock:
                self._last[run.run_id] = known
        return known[1]

    def _quietly(self, run: StoredRun, now_ns: int) -> Verdict | None:
        try:
            return stored_verdict(run, self._store, now_ns)
        except (StoreError, UnknownRun, *UNDECODABLE) as error:  # one bad file must not hide other runs
            _log.warning("run %s has no verdict: %s", run.run_id, error)
            return None


def stored_alerts(run: StoredRun, store: Store, attempt: int | None = None) -> list[Alert]:
    """Return the stored alerts of an attempt (None: the newest), newest first.

    Raises:
        StoreError, UnknownRun, UnknownAttempt
    """
    return AlertBook(run.run_id, store.alerts(run.run_id)).of_span(run.span_of(attempt))


def stored_verdict(run: StoredRun, store: Store, now_ns: int, attempt: int | None = None) -> Verdict | None:
    """Return the verdict of an attempt that is not live (None: the newest), from its stored alerts.

    It is None for a live run, whose summary derives a verdict from its numbers.

    Raises:
        StoreError, UnknownRun, UnknownAttempt
    """
    state, silent_s = state_of(run, attempt, now_ns)
    if state == "live":
        return None
    alerts = stored_alerts(run, store, attempt)
    return verdict_of(
        state, lambda: RunEvidence(rebuild(store, run.run_id, attempt).window()), alerts, silent_s=silent_s
    )


def state_of(run: StoredRun, attempt: int | None, now_ns: int) -> tuple[RunStatus, float | None]:
    """Return an attempt's state (None: the newest's), and the seconds of silence; None for an earlier one."""
    for earlier in run.earlier:
        if earlier.number == attempt:
            return earlier.state, None
    return state_now(run, now_ns), (now_ns - run.received_ns) / 1e9


def _read(path: Path) -> _Known:
    try:
        return _decode(read_own(path))
    except FileNotFoundError:
        return {}
    except (OSError, *UNDECODABLE) as error:
        _log.warning("%s is not readable (%s); verdicts are made again", path, error)
        return {}
