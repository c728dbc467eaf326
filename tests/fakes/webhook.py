"""A webhook receiver on loopback that keeps what it is sent."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.waiting import PATIENCE_S, wait_until


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

    def wait_for(self, count: int, timeout_s: float = PATIENCE_S) -> list[dict[str, Any]]:
        """The messages, once there are so many."""
        wait_until(f"{count} messages", lambda: len(self.messages) >= count, timeout_s)
        return self.messages

    def __enter__(self) -> Webhook:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
