"""The later runs of a script in which the advice of a finding was followed, for who reads the findings of a run that is over."""

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
"""How many runs are looked at: those that came next, as an advice is followed soon or not at all."""
MOST_READ: Final = 5
"""How many of those that followed are read, until one has enough to tell: each takes the time to open its file."""
_MOST_KEPT: Final = 64  # observed runs, some 10 kB each
_AGAIN_S: Final = 60.0  # how often a run that still reports is read again

_Version = tuple[int, str]  # what becomes another with a run's rows, and with its name
_Later = Sequence[tuple[StoredRun, Sequence[Setting]]]
"""Later runs, the next one first, each with the settings that it has changed."""


class LaterRuns:
    """Looks among the runs of a store for those that followed. What was read of a run is kept while that does not change.

    It may be used from any thread.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[_Version, float, Observed]] = OrderedDict()  # used last comes last

    def mark(self, run: StoredRun, findings: list[Finding]) -> list[Finding]:
        """Return findings of the newest attempt of a run, those with ``followed`` whose advice a later run followed.

        Of a run that goes on, or whose findings name no settings, no other run is looked at.
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
        found = [
            other
            for other in self._store.runs()
            if other.started_ns > run.started_ns
            and other.run_id != run.run_id
            and _script(other) == script
            and _has_one_setting(other)
        ]
        found.sort(key=lambda other: other.started_ns)
        ours = run.processes, run.hosts, run.gpus
        return [
            (other, changed(ours, (other.processes, other.hosts, other.gpus))) for other in found[:MOST_LATER]
        ]

    def _followed(self, run: StoredRun, finding: Finding, later: _Later) -> Followed | None:
        """Return what the first run gained that began when the advice was known, followed it, and has enough to tell."""
        did = [
            other
            for other, changes in later
            if other.started_ns / 1e9 > finding.began_at and is_followed(finding, run.processes, changes)
        ]
        compared = (self._compared(run, finding, other) for other in did[:MOST_READ])
        return next((found for found in compared if found is not None), None)

    def _compared(self, run: StoredRun, finding: Finding, other: StoredRun) -> Followed | None:
        try:
            return followed(finding, self._observed(run), self._observed(other))
        except (StoreError, UnknownRun) as error:  # an unreadable run must not hide the findings
            _log.warning("runs %s and %s cannot be compared: %s", run.run_id, other.run_id, error)
            return None

    def _observed(self, run: StoredRun) -> Observed:
        now, version = time.monotonic(), (run.received_ns, run.shown_name)
        with self._lock:
            kept = self._kept.get(run.run_id)
            if kept is not None and (kept[0] == version or now - kept[1] < _AGAIN_S):
                self._kept.move_to_end(run.run_id)
                return kept[2]
        found = observed(self._store, run.run_id)
        with self._lock:
            self._kept[run.run_id] = version, now, found
            self._kept.move_to_end(run.run_id)
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return found


def _has_one_setting(run: StoredRun) -> bool:
    """Whether a run's speed is that of its settings: not with cached batches, nor where autotune moved them."""
    loaders = [loader for process in run.processes for loader in process.loaders]
    return not any(loader.cached_batches or loader.autotuned for loader in loaders)


def _script(run: StoredRun) -> tuple[str, PurePath] | None:
    """Return the script's name and file, by which runs are told to be of the same; None where no process has described itself."""
    if not run.processes:
        return None
    first = run.processes[0]
    return first.name, PurePath(first.cwd, *first.argv[:1])
