"""Another user's process that takes the port of a server that was killed, and answers in its place.

``Impostor`` starts this file as that process. It keeps everything it receives and tells everybody of a hang.
"""

from __future__ import annotations

import http.client
import http.server
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import msgspec

from loaderwatch.core.answers import Finding
from tests.fakes.quiet_server import QuietServer
from tests.fakes.summaries import rank_row, summary_with
from tests.waiting import PATIENCE_S, wait_until

NOBODY = 65534
"""The user that the impostor becomes where the tests run as root."""


class Impostor:
    """``with Impostor(folder, port) as impostor``: listens there from the moment at which the port is free.

    ``relay(url)`` lets it pass challenges on to the real server, whose proofs it hands back as its own.
    """

    def __init__(self, folder: Path, port: int) -> None:
        folder.mkdir()
        self._heard = folder / "heard"
        self._heard.touch()
        hang = Finding(
            id="hang-1", key="hung:0", code="hung", scenario="S36", severity="critical", state="firing",
            confidence=0.9,
            rank=0, host=None, worker=None, pid=None, sample_indices=[], began_at=0.0, ended_at=None,
            title="Rank 0 hangs.",
            cause="c", advice="a", evidence=[], lost_s=None, gain_ceiling_ratio=None, stacks=[],
        )  # fmt: skip
        hung = summary_with([rank_row(0)], state="hung")
        (folder / "findings").write_bytes(msgspec.json.encode([hang]))
        (folder / "summary").write_bytes(msgspec.json.encode(hung))
        command = [sys.executable, "-m", "tests.fakes.impostor", str(folder), str(port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)

    def __enter__(self) -> Impostor:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)

    def listens(self) -> None:
        """Wait until it has the port."""
        wait_until(
            "the impostor has the port", lambda: "listens" in self.heard or self._process.poll() is not None
        )
        assert self._process.poll() is None, "it did not start"

    def relay(self, url: str) -> None:
        """Have it pass challenges on to a server."""
        assert self._process.stdin is not None
        print(url, file=self._process.stdin, flush=True)
        wait_until("the impostor knows it", lambda: f"relays {url}" in self.heard)

    @property
    def heard(self) -> str:
        """Return all that it was sent, and the user that it is."""
        return self._heard.read_text()

    @property
    def challenges(self) -> int:
        """Return how often somebody asked it for a proof."""
        return self.heard.count("challenge=")


class _Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    findings: list[dict[str, Any]]
    summary: bytes
    heard: Any
    relay = ""

    def do_GET(self) -> None:
        self._note()
        name = urlsplit(self.path).path.rpartition("/")[2]
        if name == "identity":
            self._send(self._proofs())
        elif name == "findings":
            self.findings[0]["began_at"] = time.time() - 2
            self._send(json.dumps(self.findings).encode())
        else:
            self._send(self.summary if name == "summary" else b"[]")

    def do_POST(self) -> None:
        self._note()
        print(self.rfile.read(int(self.headers.get("Content-Length", 0))), file=self.heard, flush=True)
        self._send(b'{"requested": true, "stored_seq": 1}')

    def _proofs(self) -> bytes:
        if not self.relay:
            return b'{"proofs": ["0"]}'
        real = http.client.HTTPConnection(urlsplit(self.relay).netloc, timeout=PATIENCE_S)
        real.request("GET", self.path)
        return real.getresponse().read()

    def _note(self) -> None:
        print(self.requestline, self.headers.items(), file=self.heard, flush=True)

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def _serve(folder: Path, port: int) -> None:
    _Answers.findings = json.loads((folder / "findings").read_text())
    _Answers.summary = (folder / "summary").read_bytes()
    with Path(os.devnull).open("a") as _Answers.heard, QuietServer(("127.0.0.1", 0), _Answers) as first:
        # Python's modules are read now, as another user may not be able to.
        threading.Thread(target=first.handle_request, daemon=True).start()
        asked = http.client.HTTPConnection("127.0.0.1", first.server_port, timeout=PATIENCE_S)
        asked.request("GET", "/findings")
        asked.getresponse().read()
        asked.close()
    with (folder / "heard").open("a") as _Answers.heard:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        threading.Thread(target=_read_orders, daemon=True).start()
        while True:
            try:
                server = QuietServer(("127.0.0.1", port), _Answers)
                break
            except OSError:
                time.sleep(0.001)
        print(f"listens as {os.getuid()}", file=_Answers.heard, flush=True)
        server.serve_forever()


def _read_orders() -> None:
    for line in sys.stdin:
        _Answers.relay = line.strip()
        print(f"relays {_Answers.relay}", file=_Answers.heard, flush=True)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
