"""A proxy between streamers and a real server, which keeps the envelopes that were stored."""

from __future__ import annotations

import http.client
import http.server
import threading
import urllib.parse
from collections.abc import Iterable

from loaderwatch.core.wire import decode, split
from tests.fakes.quiet_server import QuietServer
from tests.waiting import PATIENCE_S


class Tap:
    """``with Tap(server_url) as tap``: send to ``tap.url``; ``tap.payloads`` is in the order of answers.

    An envelope that is sent again, as its answer came too late, is kept once: the server stores it once.
    """

    def __init__(self, server_url: str) -> None:
        address = urllib.parse.urlsplit(server_url).netloc
        self.payloads: list[bytes] = []
        self._seen: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        tap = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._pass_on(None)

            def do_POST(self) -> None:
                self._pass_on(self.rfile.read(int(self.headers["Content-Length"])))

            def _pass_on(self, body: bytes | None) -> None:
                kept = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")}
                connection = http.client.HTTPConnection(address, timeout=PATIENCE_S)
                try:
                    connection.request(self.command, self.path, body, kept)
                    answer = connection.getresponse()
                    text = answer.read()
                finally:
                    connection.close()
                if answer.status == 200 and body is not None and self.path.endswith("/ingest"):
                    tap._keep(split(body))
                self.send_response(answer.status)
                for name in ("Content-Type", "Retry-After"):
                    if answer.headers[name]:
                        self.send_header(name, answer.headers[name])
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: object) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def _keep(self, payloads: Iterable[bytes]) -> None:
        with self._lock:
            for payload in payloads:
                envelope = decode(payload)
                if (envelope.stream, envelope.seq) not in self._seen:
                    self._seen.add((envelope.stream, envelope.seq))
                    self.payloads.append(payload)

    def __enter__(self) -> Tap:
        self._thread.start()
        return self

    def __exit__(self, *args: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
