"""A webhook receiver on loopback that keeps what it is sent."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Webhook:
    """Use as a context manager. ``fail_first`` requests are answered with 503."""

    def __init__(self, fail_first: int = 0) -> None:
        self.messages: list[dict[str, Any]] = []
        self.refused = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                if outer.refused < fail_first:
                    outer.refused += 1
                    self.send_response(503)
                else:
                    outer.messages.append(json.loads(body))
                    self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Its address as Apprise writes it."""
        return f"json://127.0.0.1:{self._server.server_address[1]}/"

    def wait_for(self, count: int, timeout_s: float = 20.0) -> list[dict[str, Any]]:
        """The messages, once there are so many."""
        deadline = time.monotonic() + timeout_s
        while len(self.messages) < count:
            assert time.monotonic() < deadline, f"{len(self.messages)} of {count} messages came"
            time.sleep(0.02)
        return self.messages

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
