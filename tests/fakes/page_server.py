"""A server of docs/http-api.md with made-up data, for page states that a real run reaches rarely or slowly.

Tests change its attributes while it runs (``unauthorized``, ``down``, ``delay_s``, ``gone``); by hand:
``python -m tests.fakes.page_server 8799`` and open the printed address.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from loaderwatch.server.access.request_gate import headers
from tests.fakes.page_answers import (
    ADVICE,
    WHAT_IF,
    boundaries,
    coupling,
    epochs,
    fetches,
    gpus,
    heatmap,
    marks,
    ranks,
    row,
    series,
    summary,
    workers,
)
from tests.fakes.page_data import HANG_STACK, MAIN_STACK, FakeRun, make_runs
from tests.fakes.page_events import Broadcast
from tests.fakes.page_profile import profile

WEB = Path(__file__).parents[2] / "web"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS = headers()  # the real server's: what its policy forbids fails here


class PageServer(ThreadingHTTPServer):
    """The fake server and the switches a test may turn."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64  # a page asks for twenty files at once

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.runs: list[FakeRun] = []
        self.gone: set[str] = set()
        self._broadcast = Broadcast(lambda: self.runs, lambda: self.gone)
        self.reset()

    def reset(self) -> None:
        """As new, for the next test."""
        self.runs = make_runs(time.time())
        self.unauthorized = False
        self.down = False
        self.delay_s = 0.0
        self.gone = set()
        self.posts: list[str] = []
        self.tick_s = 1.0

    @property
    def down(self) -> bool:
        """Whether every request fails and open streams end."""
        return self._down

    @down.setter
    def down(self, value: bool) -> None:
        self._down = value
        if value:
            self._broadcast.cut()

    @property
    def tick_s(self) -> float:
        """How often a run that reports has news."""
        return self._broadcast.tick_s

    @tick_s.setter
    def tick_s(self, value: float) -> None:
        self._broadcast.tick_s = value

    def follow(self, run: FakeRun, last_event_id: str | None) -> Iterator[bytes]:
        """The run's live events, by the true hub."""
        return self._broadcast.follow(run, last_event_id)

    def server_close(self) -> None:
        """Close the socket, and end what publishes."""
        super().server_close()
        self._broadcast.stop()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_address[1]}/"

    def start(self) -> threading.Thread:
        """Serve from a thread."""
        thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        return thread

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that leaves in the middle of an answer is no news."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        path = unquote(split.path)
        if not path.startswith("/api/"):
            return self._file(path)
        if not self._open():
            return None
        q = {k: ",".join(v) for k, v in parse_qs(split.query).items()}
        return self._api(path.removeprefix("/api/v1/").split("/"), q, time.time())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not self._open():
            return None
        self.server.posts.append(self.path)
        parts = self.path.removeprefix("/api/v1/").split("/")
        if parts[-1] == "stacks" or "/stacks?" in self.path:
            return self._json({"requested": True})
        found = next((f for r in self.server.runs for f in r.findings if f["id"] == parts[1]), None)
        if found is None:
            return self._json({"error": f"there is no alert {parts[1]}", "field": None}, 404)
        found["state"] = {"ack": "acknowledged", "silence": "silenced"}[parts[2]]
        if parts[2] == "silence":
            found["silenced_until"] = time.time() + 3600
        return self._json(found)

    def _open(self) -> bool:
        if self.server.down:
            self.close_connection = True
            return False
        if self.server.unauthorized:
            self._json({"error": "no token", "field": None}, 401)
            return False
        time.sleep(self.server.delay_s)
        return True

    def _api(self, parts: list[str], q: dict[str, str], wall: float) -> None:
        if parts == ["runs"]:
            return self._json([row(r, wall) for r in self.server.runs if r.run_id not in self.server.gone])
        run = next((r for r in self.server.runs if r.run_id == parts[1]), None)
        if run is None or run.run_id in self.server.gone:
            return self._json({"error": f"there is no run {parts[1]}", "field": None}, 404)
        rank = int(q.get("rank", 0))
        if parts[2] == "events":
            return self._events(run)
        stack = {"rank": rank, "taken_at": wall - 9, "why": "requested"}
        answers: dict[str, Callable[[], Any]] = {
            "summary": lambda: summary(run, wall),
            "series": lambda: (
                several if len(several := [series(run, q | {"metric": m}, wall)
                                           for m in q["metric"].split(",")]) > 1
                else several[0]),
            "heatmap": lambda: heatmap(run, q, wall),
            "findings": lambda: run.findings,
            "ranks": lambda: ranks(run, q, wall),
            "epochs": lambda: epochs(run, wall),
            "boundaries": lambda: boundaries(run, wall),
            "marks": lambda: marks(run, wall),
            "fetches": lambda: fetches(run, q, wall),
            "slow-samples": lambda: [
                {"rank": rank, "loader": 0, "worker": n % run.workers, "index": 1204 + n * 311,
                 "slow_s": 1.9 / (n + 1),
                 "fetch_s": 2.4 / (n + 1), "at": run.now(wall) - 40 * n} for n in range(8)],
            "audit": lambda: ADVICE,
            "what-if": lambda: WHAT_IF,
            "coupling": lambda: coupling(run, wall),
            "profile": lambda: profile(run, q, wall),
            "workers": lambda: workers(run, rank, wall),
            "gpus": lambda: gpus(run, q, wall),
            "stacks": lambda: [stack | {"worker": -1, "pid": 31820, "text": MAIN_STACK},
                               stack | {"worker": 2, "pid": 31877, "text": HANG_STACK}],
        }  # fmt: skip
        return self._json(answers[parts[2]]())

    def _events(self, run: FakeRun) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in self.server.follow(run, self.headers.get("Last-Event-ID")):
            self.wfile.write(event)
            self.wfile.flush()

    def _json(self, body: Any, status: int = 200) -> None:
        self._send(status, json.dumps(body).encode(), "application/json")

    def _file(self, path: str) -> None:
        file = (WEB / ("index.html" if path == "/" else path.lstrip("/"))).resolve()
        if not file.is_relative_to(WEB.resolve()) or not file.is_file():
            return self._send(404, b"not found", "text/plain")
        return self._send(200, file.read_bytes(), TYPES.get(file.suffix, "application/octet-stream"))

    def _send(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in HEADERS:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    server = PageServer(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(server.url, flush=True)
    server.serve_forever()
