"""A server in a thread that only receives what the streamer sends, decoded by the real wire code."""

from __future__ import annotations

import http.server
import json
import threading
from array import array
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from loaderwatch.core.server_trust import IDENTITY_PATH, proofs
from loaderwatch.core.wire import Envelope, decode, split
from tests.fakes.own_faults import own_faults
from tests.fakes.quiet_server import QuietServer
from tests.waiting import PATIENCE_S, wait_until

TOKEN = "a-secret-for-tests"


class Receiver:
    """``with Receiver() as receiver``; ``answer`` may be set to return (status, body, headers) for a try."""

    def __init__(self, port: int = 0, token: str = TOKEN) -> None:
        self.challenges = 0  # how often it proved that it knows ``token``
        self.envelopes: dict[tuple[str, int], Envelope] = {}
        self.posts: list[tuple[str, int]] = []
        self.tokens: list[str | None] = []
        self.extra: dict[str, Any] = {}  # for the next receipt
        self.answer: Callable[[int], tuple[int, bytes, dict[str, str]] | None] | None = None
        self.bodies: list[bytes] = []  # of every try
        self._lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                asked = urlsplit(self.path)
                if asked.path == IDENTITY_PATH:
                    receiver.challenges += 1
                    (challenge,) = parse_qs(asked.query)["challenge"]
                    self._reply(200, msgspec.json.encode(proofs([token], challenge)), {})
                    return
                self._reply(200, b'{"status": "ok"}', {})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.tokens.append(self.headers.get("Authorization"))
                receiver.bodies.append(body)
                chosen = receiver.answer(len(receiver.tokens)) if receiver.answer else None
                if chosen is not None:
                    self._reply(*chosen)
                    return
                self._reply(200, receiver._store(body), {})

            def _reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._server = QuietServer(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def _store(self, body: bytes) -> bytes:
        with self._lock:
            for envelope in map(decode, split(body)):
                key = (envelope.stream, envelope.seq)
                self.posts.append(key)
                self.envelopes.setdefault(key, envelope)
            extra, self.extra = self.extra, {}
        return json.dumps({"stored_seq": envelope.seq, **extra}).encode()

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(PATIENCE_S)
        if kind is None:
            faults = own_faults(self.in_order())
            assert not faults, f"faults of our own by (rank, pid): {faults}"

    def in_order(self) -> list[Envelope]:
        """The envelopes, each once."""
        with self._lock:
            return [self.envelopes[key] for key in sorted(self.envelopes)]

    def column(self, table: str, column: str) -> list[int]:
        """All values of an integer column, in order of arrival."""
        return [
            value
            for envelope in self.in_order()
            if table in envelope.tables
            for value in array("q", envelope.tables[table][column])
        ]

    def lost(self, what: str) -> int:
        """The losses that were reported."""
        return sum(
            loss.count for envelope in self.in_order() for loss in envelope.losses if loss.what == what
        )

    def wait_for(self, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        """Wait until it holds, or fail."""
        wait_until("what was awaited among the envelopes", condition, timeout_s)
