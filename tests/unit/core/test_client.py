"""Asking a server that may not be one of ours."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path

import pytest

from loaderwatch.core.client import Client, ServerError, find_server
from tests.fakes.receiver import Receiver
from tests.waiting import PATIENCE_S


class _Other(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<h1>Something else</h1>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_another_server_at_the_address_is_told_apart(data_dir: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Other) as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            url = f"http://127.0.0.1:{other.server_address[1]}"
            with pytest.raises(ServerError, match="is not a loaderwatch server"):
                Client(url, None).runs()
            data_dir.mkdir(parents=True, exist_ok=True)
            (data_dir / "server.json").write_text(json.dumps({"url": url, "pid": 1}))
            (data_dir / "token.json").write_text(json.dumps({"viewer": "v"}))
            assert find_server(data_dir) is None  # ours was killed, and its port is another's by now
        finally:
            other.shutdown()
            thread.join(PATIENCE_S)


def test_a_token_that_no_request_can_carry_is_an_error_of_the_server() -> None:
    """A file may hold such a token: commands report it in a line, and the watch of alerts tries again."""
    token = "a token from a file, 字"
    with (
        Receiver(token=token) as server,
        pytest.raises(ServerError, match="its token cannot be put into a request"),
    ):
        Client(server.url, token).runs()
