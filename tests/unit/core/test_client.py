"""Asking a server that may not be one of ours."""

from __future__ import annotations

import http.server
import json
import threading
from pathlib import Path

import pytest

from loaderwatch.core.client import Client, ServerError, find_server
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
