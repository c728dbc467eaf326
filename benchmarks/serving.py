"""A real server in a directory of its own, for as long as a benchmark needs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

TOKEN: Final = "benchmark-token-0123456789abcdef"
START_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class Serving:
    """Where it is, and what it says."""

    port: int
    pid: int
    log: Path

    @property
    def id(self) -> str:
        """By which servers of one ClickHouse share out the runs."""
        return (self.log.parent / "server_id").read_text().strip()


@contextmanager
def serving(directory: Path, store: str | None = None) -> Iterator[Serving]:
    """Start and end a server. ``store`` is the address of a ClickHouse database; None: DuckDB files.

    Raises:
        RuntimeError: the server did not start; the message has the end of its log.
    """
    directory.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "loaderwatch", "serve", "--data-dir", str(directory)),
                *("--port", str(port), "--token", TOKEN),
                *(() if store is None else ("--store", store)),
            ],
            env={**os.environ, "LOADERWATCH_DIR": str(directory)},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_until_ready(port, process, log)
        yield Serving(port, process.pid, log)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _wait_until_ready(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the server did not start:\n{log.read_text()[-2000:]}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def store_at(name: str, directory: Path) -> Iterator[tuple[str | None, psutil.Process | None]]:
    """Give the address for ``--store`` (None for DuckDB) and the process of a started engine, if any.

    ``name`` is duckdb, clickhouse (starts the engine of the tests) or an address.
    """
    if name != "clickhouse":
        yield None if name == "duckdb" else name, None
        return
    from tests.fakes import clickhouse

    why = clickhouse.missing()
    if why is not None:
        raise SystemExit(why)
    engine = clickhouse.Server(directory / "engine")
    try:
        yield engine.url("loaderwatch"), psutil.Process(engine.process.pid)
    finally:
        engine.kill()
