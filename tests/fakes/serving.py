"""A real server for tests: the command in a process of its own, or the application in a thread."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from loaderwatch.core.wire import Envelope, encode
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.window import RunWindow
from loaderwatch.server.access.connection import Connection, Listener, Server, uvicorn_options
from loaderwatch.server.access.tokens import Tokens
from loaderwatch.server.app import create_app
from loaderwatch.server.config_file import ServeOptions
from loaderwatch.server.live.run import LiveRun
from loaderwatch.server.recordings import recording
from tests.waiting import PATIENCE_S
from tests.waiting import wait_until as wait_until  # as many tests know it

JUDGED = 8
"""The last envelopes of a recording (four seconds): a replay waits for the detectors after each of them."""


@dataclass
class Access:
    """How to talk to a server."""

    url: str
    agent: str
    viewer: str
    owner: str

    def client(self, token: str | None = None, **more: Any) -> httpx.Client:
        """A client with the owner token, or another; "" for none."""
        token = self.owner if token is None else token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, trust_env=False, **more)

    def send(self, envelope: Envelope) -> dict[str, Any]:
        """Ingest an envelope; returns the receipt."""
        with self.client(self.agent) as client:
            answer = client.post("/api/v1/ingest", content=encode(envelope))
        assert answer.status_code == 200, answer.text
        receipt: dict[str, Any] = answer.json()
        return receipt

    def replay(self, path: Path) -> None:
        """Ingest a recording so that its last seconds are judged window by window, as they were live.

        A finding must last for some windows, but a fast machine ingests a whole recording within one window.
        """
        envelopes = list(recording.load(path).decoded())
        for envelope in envelopes[:-JUDGED]:
            self.send(envelope)
        for envelope in envelopes[-JUDGED:]:
            before = self._passes()
            self.send(envelope)
            wait_until("a pass of the detectors", partial(self._judged_since, before), pause_s=0.02)

    def _judged_since(self, passes: float) -> bool:
        return self._passes() > passes

    def _passes(self) -> float:
        """Passes of the detectors over the runs in memory."""
        with self.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return sum(
            float(line.rpartition(" ")[2]) for line in lines if line.startswith("loaderwatch_detections")
        )

    def get(self, path: str, **params: Any) -> Any:
        """JSON of an API path."""
        with self.client() as client:
            answer = client.get(f"/api/v1{path}", params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()


class ServeProcess:
    """``python -m loaderwatch serve`` on a free port."""

    def __init__(self, data_dir: Path, *args: str, descriptors: int | None = None) -> None:
        self.data_dir = data_dir
        self._args = args
        self._descriptors = descriptors  # that it may have open
        self.process: subprocess.Popen[str] | None = None

    def start(self, wait: bool = True) -> Access:
        """Start it and wait until it says where it is."""
        env = {k: v for k, v in os.environ.items() if not k.startswith("LOADERWATCH_")}
        command = [
            sys.executable,
            "-m",
            "loaderwatch",
            "serve",
            "--data-dir",
            str(self.data_dir),
            *self._args,
        ]
        if self._descriptors is not None:
            command = ["sh", "-c", f'ulimit -n {self._descriptors} && exec "$@"', "sh", *command]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=env,
            start_new_session=True,
        )
        process = self.process
        where = self.data_dir / "server.json"
        wait_until("the server starts", lambda: where.exists() or process.poll() is not None)
        assert process.poll() is None, process.communicate()[0]
        tokens = json.loads((self.data_dir / "token.json").read_text())
        return Access(
            json.loads(where.read_text())["url"], tokens["agent"], tokens["viewer"], tokens["owner"]
        )

    def stop(self, sig: int = signal.SIGTERM, timeout_s: float = PATIENCE_S) -> tuple[int, str, float]:
        """Signal it; returns exit code, what it printed, and how long it took."""
        assert self.process is not None
        began = time.monotonic()
        self.process.send_signal(sig)
        output, _ = self.process.communicate(timeout=timeout_s)
        return self.process.returncode, output, time.monotonic() - began

    def kill(self) -> None:
        """End it in any case, and let go of its pipe, also where it has ended by itself."""
        if self.process is None or self.process.stdout is None or self.process.stdout.closed:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE_S)

    def __enter__(self) -> ServeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class ScriptedDetector:
    """Finds what a test says, from the moment it says so."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.windows: list[RunWindow] = []

    def __call__(self, run: RunEvidence) -> list[Finding]:
        self.windows.append(run.window)
        return self.findings


@contextmanager
def serving(
    data_dir: Path,
    *,
    detector: ScriptedDetector | None = None,
    notify: tuple[str, ...] = (),
    connection: type[Connection] | None = None,
    open_to_all: bool = False,
    hang_after_s: float | None = None,
) -> Iterator[Access]:
    """The application in a thread, with detectors of the test's own."""
    options = ServeOptions(data_dir=data_dir, notify=notify, hang_after_s=hang_after_s)
    options.runs_dir.mkdir(parents=True, exist_ok=True)
    listener = Listener(socket.AF_INET, socket.SOCK_STREAM, 0)
    listener.bind(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    tokens = Tokens("agent-token", "viewer-token", "owner-token")
    make = LiveRun if detector is None else partial(LiveRun, detector=detector)
    app = create_app(options, tokens=tokens, url=url, make_live_run=make, open_to_all=open_to_all)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=5 if connection is None else 1,  # deadlines of its own are there to be waited for
        **uvicorn_options() | ({"http": connection} if connection else {}),
    )
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_until("the server starts", lambda: server.started or not thread.is_alive(), pause_s=0.01)
        assert thread.is_alive(), "the server did not start"
        yield Access(url, tokens.agent, tokens.viewer, tokens.owner)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
    assert not thread.is_alive(), "the server did not stop"


class EventReader:
    """Reads a run's server-sent events in a thread."""

    def __init__(
        self, access: Access, run_id: str, last_event_id: str | None = None, query: str = ""
    ) -> None:
        self.events: list[dict[str, Any]] = []
        self.heartbeats = 0
        self.ended = threading.Event()
        self.status: int | None = None
        self._run_id = run_id
        address = access.url.partition("://")[2]
        self._connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
        headers = {"authorization": f"Bearer {access.owner}", "accept": "text/event-stream"}
        if last_event_id:
            headers["last-event-id"] = last_event_id
        self._connection.request("GET", f"/api/v1/runs/{run_id}/events{query}", headers=headers)
        # The connection forgets its socket when the answer says "close"; this one can still be hung up.
        self._socket = self._connection.sock
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            answer = self._connection.getresponse()
            self.status = answer.status
            fields: dict[str, str] = {}
            for raw in answer:
                line = raw.decode().rstrip("\n")
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields.get("event") == "still":
                    self.heartbeats += 1
                    fields = {}
                elif "event" in fields:
                    data = json.loads(fields["data"])
                    self.events.append({"event": fields["event"], "id": fields.get("id"), **data})
                    fields = {}
        except (OSError, http.client.HTTPException):
            pass  # hung up by us, or the server's end
        finally:
            self.ended.set()

    def wait(self, what: str, matches: Any, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The first event for which ``matches(event)`` is true."""
        found: dict[str, Any] = wait_until(
            what, lambda: next((e for e in list(self.events) if matches(e)), None), timeout_s
        )
        return found

    def close(self) -> None:
        """Hang up."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(PATIENCE_S)
        self._connection.close()
        self._socket.close()

    def __enter__(self) -> EventReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
