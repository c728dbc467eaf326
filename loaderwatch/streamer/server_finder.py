"""Finds the server to send to: the configured one, else this machine's, which is started if missing."""

from __future__ import annotations

import logging
import os
import time
import urllib.parse
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Final

from loaderwatch.core import environment_variables as variables
from loaderwatch.core.config import Settings, is_loopback
from loaderwatch.core.detached_processes import spawn_detached
from loaderwatch.core.files import private_folder
from loaderwatch.core.low_priority_start import machine_is_full
from loaderwatch.core.message import Param, Text
from loaderwatch.core.server_file import configured_server, own_server
from loaderwatch.core.server_trust import Server, is_there
from loaderwatch.streamer.election import FileLock

log = logging.getLogger(__name__)

START_WITHIN_S: Final = 30.0
START_AGAIN_AFTER_S: Final = 60.0
ANSWERS_WITHIN_S: Final = 2.0
LATER_S: Final = 10.0
"""How many seconds the start of a server waits for a full machine to become free. The first batches have come
by then, and their records wait on disk."""


class ServerFinder:
    """Finds the server; ``may_start`` allows to start a missing local one."""

    def __init__(self, settings: Settings, *, may_start: bool = True) -> None:
        self._settings = settings
        self._may_start = may_start
        self._started_at = -START_AGAIN_AFTER_S
        self._start_anyway_at = time.monotonic() + LATER_S
        self._failure_said = self._plain_said = False
        self.troubles: deque[Text] = deque(maxlen=10)  # faults to report to a person

    def find(self) -> Server | None:
        """Return the server to send to, or None for now. This blocks while a local server starts."""
        if self._settings.server:
            self._warn_of_plain_http(self._settings.server)
            return configured_server(self._settings.server, self._settings.token, self._settings, "agent")
        return self._running() or (self._start() if self._may_start else None)

    def _warn_of_plain_http(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        if (
            self._plain_said
            or self._settings.redact
            or parts.scheme != "http"
            or is_loopback(parts.hostname or "")
        ):
            return
        self._plain_said = True
        self.troubles.append(Text("sent-unencrypted", {"url": url}))

    def _running(self) -> Server | None:
        server = own_server(self._settings, "agent")
        if server is None:
            return None
        server = replace(server, token=server.token or self._settings.token)
        return server if is_there(server, ANSWERS_WITHIN_S) else None

    def _start(self) -> Server | None:
        now = time.monotonic()
        if now - self._started_at < START_AGAIN_AFTER_S or (
            now < self._start_anyway_at and machine_is_full()
        ):
            return None
        lock = FileLock(self._settings.data_dir / "server-start.lock")
        try:
            private_folder(self._settings.data_dir)
            self._settings.check_own()
            if not lock.try_acquire():
                return None  # another streamer is starting it
        except OSError as error:
            log.warning("a local server cannot be started: %s", error)
            return None
        try:
            running = self._running()
            if running is not None:
                return running
            self._started_at = time.monotonic()
            return self._launch()
        finally:
            lock.release()

    def _launch(self) -> Server | None:
        log_path = self._settings.logs_dir / "server.log"
        # With --resume, a killed server returns with its limits and the addresses that it notifies.
        serve = ("-m", "loaderwatch", "serve", "--data-dir", str(self._settings.data_dir))
        arguments = (*serve, "--resume", "--started-by", "run")
        environ = {k: v for k, v in os.environ.items() if k != variables.SERVER.name}
        try:
            process = spawn_detached(arguments, log_path, environ)
        except OSError as error:
            log.warning("a local server cannot be started: %s", error)
            self._say_failure(str(error))
            return None
        deadline = time.monotonic() + START_WITHIN_S
        while time.monotonic() < deadline:
            running = self._running()
            if running is not None:
                log.info("started a local server: %s", running.url)
                return running
            if process.poll() is not None:
                log.warning("the local server ended with exit code %d; see %s", process.returncode, log_path)
                ended = Text("server-exit-code", {"code": process.returncode, "log": str(log_path)})
                self._say_failure(last_line(log_path) or ended)
                return None
            time.sleep(0.2)
        log.warning("the local server does not answer after %.0f s; see %s", START_WITHIN_S, log_path)
        return None

    def _say_failure(self, why: str | Text) -> None:
        if not self._failure_said:
            self._failure_said = True
            failure: dict[str, Param] = {"why": why, "folder": str(self._settings.outbox_dir)}
            self.troubles.append(Text("page-not-started", failure))


def last_line(path: Path) -> str:
    """Return the last line of a process's log."""
    try:
        text = path.read_bytes()[-4096:].decode("utf-8", "replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("loaderwatch: ") if lines else ""
