"""Finds later runs of a script that followed a finding's advice, for readers of an ended run's findings."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

import msgspec

from loaderwatch.advise.comparison.compare import Observed
from loaderwatch.advise.comparison.followed_advice import followed, is_followed, names_settings
from loaderwatch.advise.comparison.settings import changed
from loaderwatch.core.answers import Finding, Followed, Setting
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.recordings.run_measures import observed
from loaderwatch.server.store.protocol import Store, StoredRun, StoreError, UnknownRun

_log = logging.getLogger(__name__)

MOST_LATER: Final = 20
"""How many of the next runs are searched: people follow advice soon or never."""
MOST_READ: Final = 5
"""How many runs that followed the advice are read until one has enough data. Each costs opening its file."""
_MOST_KEPT: Final = 64  # observed runs, some 10 kB each
_AGAIN_S: Final = 60.0  # how often a run that still reports is read again

_Version = tuple[int, str]  # changes with a run's rows and its name
_Later = Sequence[tuple[StoredRun, Sequence[Setting]]]
"""Later runs, the next one first, each with its changed settings."""


class LaterRuns:
    """Finds runs in a store that followed a finding's advice. A run's measures are cached until it changes.

    It may be used from any thread.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[_Version, float, Observed]] = OrderedDict()  # last used is last

    def mark(self, run: StoredRun, findings: list[Finding]) -> list[Finding]:
        """Return findings of a run's newest attempt, with ``followed`` where a later run followed the advice.

        No other run is read if the run is live, or no finding names settings.
        """
        if state_now(run, time.time_ns()) == "live" or not any(map(names_settings, findings)):
            return findings
        later = self._later(run)
        return [
            msgspec.structs.replace(finding, followed=self._followed(run, finding, later))
            if names_settings(finding)
            else finding
            for finding in findings
        ]

    def _later(self, run: StoredRun) -> _Later:
        script = _script(run)
        later = [
            other
            for other in self._store.runs()
            if other.started_ns > run.started_ns
            and other.run_id != run.run_id
            and _script(other) == script
            and _has_one_setting(other)
        ]
        later.sort(key=lambda other: other.started_ns)
        ours = run.processes, run.hosts, run.gpus
        return [
            (other, changed(ours, (other.processes, other.hosts, other.gpus))) for other in later[:MOST_LATER]
        ]

    def _followed(self, run: StoredRun, finding: Finding, later: _Later) -> Followed | None:
        """Return the gain of the first later run that followed the finding's advice and has enough data."""
        followers = [
            other
            for other, changes in later
            if other.started_ns / 1e9 > finding.began_at and is_followed(finding, run.processes, changes)
        ]
        compared = (self._compared(run, finding, other) for other in followers[:MOST_READ])
        return next((gain for gain in compared if gain is not None), None)

    def _compared(self, run: StoredRun, finding: Finding, other: StoredRun) -> Followed | None:
        try:
            return followed(finding, self._observed(run), self._observed(other))
        except (StoreError, UnknownRun) as error:  # an unreadable run must not hide the findings
            _log.warning("runs %s and %s cannot be compared: %s", run.run_id, other.run_id, error)
            return None

    def _observed(self, run: StoredRun) -> Observed:
        now, version = time.monotonic(), (run.received_ns, run.shown_name)
        with self._lock:
            cached = self._kept.get(run.run_id)
            if cached is not None and (cached[0] == version or now - cached[1] < _AGAIN_S):
                self._kept.move_to_end(run.run_id)
                return cached[2]
        measures = observed(self._store, run.run_id)
        with self._lock:
            self._kept[run.run_id] = version, now, measures
            self._kept.move_to_end(run.run_id)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return measures


def _has_one_setting(run: StoredRun) -> bool:
    """Whether one set of settings explains a run's speed: no cached batches, and no changes by autotune."""
    loaders = [loader for process in run.processes for loader in process.loaders]
    return not any(loader.cached_batches or loader.autotuned for loader in loaders)


def _script(run: StoredRun) -> tuple[str, PurePath] | None:
    """Return the script's name and file, the same for all its runs; None if no process is described yet."""
    if not run.processes:
        return None
    first = run.processes[0]
    return first.name, PurePath(first.cwd, *first.argv[:1])
