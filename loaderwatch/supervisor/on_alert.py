"""``--on-alert``: the alerts for which a command runs, and the command, limited in time and number."""

from __future__ import annotations

import os
import queue
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import msgspec

from loaderwatch.core.answers import Finding, Param, Text
from loaderwatch.core.client import Client
from loaderwatch.supervisor.say import say

TIMEOUT_S: Final = 60.0
MOST_COMMANDS: Final = 100
_TAIL_BYTES: Final = 2000
_KILLED_WITHIN_S: Final = 5.0

Event = Literal["fires", "resolved"]


class AlertTeller:
    """Turns the findings of each look at a run into events: once when an alert fires, once when it is over.

    As in the server's messages, remarks, acknowledged and silenced alerts make no events. A warning that
    turns critical or into a crash makes another one. The end of a crash makes none.
    """

    def __init__(self, began_at: float) -> None:
        """``began_at``: start of the job's first attempt, UTC in seconds; older alerts are not its own."""
        self._began_at = began_at
        self._told: dict[str, Finding] = {}  # by id: the finding at its last event

    def events(self, findings: Sequence[Finding]) -> list[tuple[Event, Finding]]:
        """Return the new events in one run's findings."""
        events: list[tuple[Event, Finding]] = []
        here = {finding.id for finding in findings}
        # alerts go missing when a new attempt begins
        for gone in [reported for reported in self._told.values() if reported.id not in here]:
            del self._told[gone.id]
            if gone.state != "resolved" and gone.code != "crashed":
                events.append(("resolved", msgspec.structs.replace(gone, state="resolved")))
        for finding in reversed(findings):  # oldest first
            reported = self._told.get(finding.id)
            if finding.state == "resolved" and finding.code != "crashed":
                if reported is not None and reported.state != "resolved":
                    self._told[finding.id] = finding
                    events.append(("resolved", finding))
            elif self._is_news(finding, reported):
                self._told[finding.id] = finding
                events.append(("fires", finding))
        return events

    def _is_news(self, finding: Finding, told: Finding | None) -> bool:
        if finding.severity == "info" or finding.began_at < self._began_at:
            return False
        if finding.code == "crashed":  # the run's end resolves it at once
            return finding.state in ("firing", "resolved") and (told is None or told.code != "crashed")
        if finding.state != "firing":
            return False
        if told is None or told.state == "resolved":
            return True
        return finding.severity == "critical" and told.severity != "critical"


class AlertCommand:
    """Runs a shell command per event, one at a time, with the alert as JSON on its standard input."""

    def __init__(self, command: str, environ: Mapping[str, str]) -> None:
        self._command = command
        self._environ = dict(environ)
        self._waiting: queue.Queue[bytes] = queue.Queue()
        self._thread: threading.Thread | None = None
        self._taken = 0
        self._abandoned = threading.Event()

    def post(self, event: Event, client: Client, run_id: str, finding: Finding) -> None:
        """Queue the command for one event; report once if there are too many."""
        self._taken += 1
        if self._taken > MOST_COMMANDS:
            if self._taken == MOST_COMMANDS + 1:
                say("on-alert-exhausted", most=MOST_COMMANDS)
            return
        self._waiting.put(as_json(event, client.url, run_id, finding))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="--on-alert", daemon=True)
            self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether a command runs or waits."""
        return self._waiting.unfinished_tasks > 0 and not self._abandoned.is_set()

    def abandon(self) -> None:
        """Kill the running command and start no more."""
        self._abandoned.set()

    def _work(self) -> None:
        while True:
            alert = self._waiting.get()
            try:
                failure = run_command(self._command, alert, self._environ, abandoned=self._abandoned)
                if failure is not None:
                    say(failure.id, **failure.params)
            finally:
                self._waiting.task_done()


def as_json(event: Event, server_url: str, run_id: str, finding: Finding) -> bytes:
    """Return the alert as in ``GET /runs/{run}/findings``, with event, run and page address, as one line."""
    alert: dict[str, Any] = msgspec.to_builtins(finding)
    about = {"event": event, "run": run_id, "page": f"{server_url}/#/runs/{run_id}"}
    return msgspec.json.encode({**about, **alert}) + b"\n"


def run_command(
    command: str,
    text: bytes,
    environ: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
    abandoned: threading.Event | None = None,
) -> Text | None:
    """Run a command with ``/bin/sh`` and the text on its stdin; return how it failed, None if it did not.

    Only a failed command's last stderr line is kept. A late or abandoned command's process group is killed.
    """
    abandoned = abandoned or threading.Event()
    with tempfile.TemporaryFile() as stdin:  # not a pipe, since the command need not read it
        stdin.write(text)
        stdin.seek(0)
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                stdin=stdin,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=dict(environ),
                start_new_session=True,
                preexec_fn=_unblock,  # the supervisor blocks signals, and children inherit that
            )
        except OSError as error:
            return _failure(command, "not-started", error=str(error), said=None)
    assert process.stderr is not None
    with process.stderr as stderr:
        tail = _read_tail(process, stderr.fileno(), time.monotonic() + timeout_s, abandoned)
    last_error_line = tail.decode("utf-8", "replace").strip().rpartition("\n")[2] or None
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_WITHIN_S)
        return _failure(command, "late", after_s=timeout_s, said=last_error_line)
    if process.returncode:
        how = "code" if process.returncode > 0 else "signal"
        return _failure(command, how, number=abs(process.returncode), said=last_error_line)
    return None


def _failure(command: str, how: str, **params: Param) -> Text:
    return Text("on-alert-failed", {"command": repr(command), "how": how, **params})


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _read_tail(
    process: subprocess.Popen[bytes], fd: int, deadline: float, abandoned: threading.Event
) -> bytes:
    """Return the end of a descriptor's data until the process has ended or the time is over."""
    tail = b""
    at_end = False
    while time.monotonic() < deadline and not abandoned.is_set():
        ended = process.poll() is not None
        ready = [] if at_end else select.select([fd], [], [], 0.0 if ended else 0.1)[0]
        if ready:
            data = os.read(fd, 65536)
            at_end = not data
            tail = (tail + data)[-_TAIL_BYTES:]
        elif ended:  # a background process that it left may hold the pipe open
            break
        elif at_end:
            time.sleep(0.02)
    return tail
