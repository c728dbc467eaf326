"""A thread that asks the server for the alerts of the job's runs and passes them on."""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import psutil

from loaderwatch.core.answers import Finding
from loaderwatch.core.client import Client, ServerError, find_server
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.message import Text
from loaderwatch.supervisor.say import say

_MAIN_RING: Final = re.compile(r"main-(\d+)\.ring")


class JobRuns:
    """The runs that a job's processes record, as they appear: a script may name its run or train several."""

    def __init__(self, rings_dir: Path, pid: int, known: Sequence[str] = ()) -> None:
        """Start with the known runs; ``pid`` is the job's first process."""
        self._rings_dir = rings_dir
        self._pid = pid
        self._strangers: set[tuple[str, int]] = set()  # rings of other jobs, by (run, pid)
        self._processes: dict[tuple[str, int], psutil.Process] = {}
        self.ids = list(known)

    @property
    def seen(self) -> bool:
        """Whether a process of the job was ever seen recording."""
        return bool(self._processes)

    def refresh(self) -> None:
        """Look for rings of the job's processes."""
        try:
            folders = [Path(entry.path) for entry in os.scandir(self._rings_dir) if entry.is_dir()]
        except OSError:
            return  # nothing was watched on this host yet
        for folder in folders:
            for ring in self._rings(folder):
                if ring not in self._strangers and ring not in self._processes:
                    self._place(*ring)

    def has_one_since(self, run_id: str, at: float) -> bool:
        """Whether a living training process of the run on this host was already there at a time (UTC, s)."""
        return any(
            process.is_running() and process.create_time() <= at
            for (run, _), process in self._processes.items()
            if run == run_id
        )

    @staticmethod
    def _rings(folder: Path) -> list[tuple[str, int]]:
        try:
            matches = [_MAIN_RING.fullmatch(n) for n in os.listdir(folder)]  # noqa: PTH208 - names suffice
        except OSError:
            return []
        return [(folder.name, int(match[1])) for match in matches if match is not None]

    def _place(self, run_id: str, pid: int) -> None:
        try:
            process = psutil.Process(pid)
            ours = pid == self._pid or any(parent.pid == self._pid for parent in process.parents())
        except psutil.Error:
            return  # it has ended, and its ring goes too
        if not ours:
            self._strangers.add((run_id, pid))
            return
        self._processes[run_id, pid] = process
        if run_id not in self.ids:
            self.ids.append(run_id)


POLL_S: Final = 1.0
SILENT_S: Final = 60.0
"""A silence of the server that is not reported yet: a server that restarts is back by then."""
_OVER: Final = ("finished", "crashed", "lost")
_REFUSED: Final = (401, 403)

Observer = Callable[[Client, str, Sequence[Finding]], None]


class Watch(threading.Thread):
    """Looks at the findings of the job's runs once a second. A server that does not answer is asked again."""

    def __init__(self, runs: JobRuns, observers: Sequence[Observer]) -> None:
        super().__init__(name="alerts of the job", daemon=True)
        self.runs = runs
        self._observers = observers
        self._ending = threading.Event()
        self._client: Client | None = None
        self._heard_at = time.monotonic()
        self._told = False
        self._over_since: float | None = None

    def run(self) -> None:
        """Look until stopped."""
        while not self._ending.wait(POLL_S):
            self.runs.refresh()
            if self.runs.ids:
                self._look()
            else:
                self._heard_at = time.monotonic()  # nothing is expected yet

    def stop(self) -> None:
        """End after the current look."""
        self._ending.set()

    def await_end(self, within_s: float, interrupted: Callable[[], bool]) -> None:
        """Return once the server knows that the runs are over and was asked for their last alerts."""
        give_up_at = time.monotonic() + within_s
        self._over_since = None  # the end seen before was that of another run of this name
        while self.runs.seen and self.is_alive() and time.monotonic() < give_up_at and not interrupted():
            if self._over_since is not None and time.monotonic() - self._over_since > 3 * POLL_S:
                return
            time.sleep(0.1)

    def _look(self) -> None:
        try:
            if self._client is None:
                self._client = find_server(None)
            if self._client is None:
                self._silent(Text("no-server-here"))
                return
            if self._client.token is None:  # an unproven server could make us end and restart the job
                self._client = None
                self._silent(Text("no-proven-server"), at_once=True)
                return
            over = [self._look_at(self._client, run_id) for run_id in list(self.runs.ids)]
            self._heard_at, self._told = time.monotonic(), False
        except ServerError as error:
            if error.status in _REFUSED:
                self._silent(Text("viewer-refused", {"reason": error.reason}), at_once=True)
            else:
                self._silent(str(error))
            self._client = None
        except (OSError, http.client.HTTPException, LoaderwatchError) as error:
            self._client = None
            self._silent(str(error))
        else:
            if not all(over):
                self._over_since = None
            elif self._over_since is None:
                self._over_since = time.monotonic()

    def _look_at(self, client: Client, run_id: str) -> bool:
        """Pass on the run's findings; return whether the run is over."""
        try:
            findings = client.findings(run_id)
            over = client.summary(run_id).state in _OVER
        except ServerError as error:
            if error.status == http.client.NOT_FOUND:
                return False  # its first envelope is on the way
            raise
        for observer in self._observers:
            observer(client, run_id, findings)
        return over

    def _silent(self, why: str | Text, *, at_once: bool = False) -> None:
        if not self._told and (at_once or time.monotonic() - self._heard_at > SILENT_S):
            self._told = True
            say("alerts-not-seen", why=why)
