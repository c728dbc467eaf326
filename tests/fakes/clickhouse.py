"""A small ClickHouse server for tests: the real engine (chdb) in its own process, behind the HTTP interface.

``python -m tests.fakes.clickhouse DIRECTORY`` prints its port. It supports what clickhouse-connect uses:
statements in the body or in ``query=``, settings as parameters, rows of an INSERT in the body, and error
codes in a header.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

USER, PASSWORD = "watcher", "s3cret-of-the-tests"
WITHOUT_CHDB = "chdb, the engine of ClickHouse, is not installed: make clickhouse"

_NOT_SETTINGS = {
    "wait_end_of_query",
    "query",
    "database",
    "default_format",
    "client_protocol_version",
    "session_id",
    "query_id",
    "compress",
}
_INSERT = re.compile(rb"\s*(INSERT INTO .*?)\s+FORMAT (\w+)\s", re.DOTALL)
_FORMAT = re.compile(r"\s+FORMAT (\w+)\s*;?\s*$")
_CODE = re.compile(r"Code: (\d+)")


def missing() -> str | None:
    """Why the engine cannot be used; None when it can."""
    found = find_spec("chdb") and find_spec("clickhouse_connect")
    return None if found else WITHOUT_CHDB


class Engine:
    """chdb in this process. One statement runs at a time, with its settings."""

    def __init__(self, directory: Path) -> None:
        from chdb.session import Session

        make: Any = Session
        self._session: Any = make(str(directory))
        self._lock = threading.Lock()
        self._given: dict[str, str] = {}  # the settings of the statement before
        self.lose = 0  # inserts that are done, and whose answers are lost
        self.refuse = ""  # inserts into this table are refused
        self.version = os.environ.get("FAKE_VERSION", "")
        self.denied = [right for right in os.environ.get("FAKE_DENIED", "").split(",") if right]

    def run(self, statement: str, data: bytes, settings: Mapping[str, str], fmt: str) -> bytes:
        """Run a statement.

        Raises:
            RuntimeError: the engine's own error, with its code.
        """
        for right in self.denied:
            if statement.lstrip().upper().startswith(right):
                raise RuntimeError(
                    f"Code: 497. DB::Exception: {USER}: Not enough privileges. (ACCESS_DENIED)"
                )
            if statement.startswith(f"CHECK GRANT {right}"):
                return self.run("SELECT 0::UInt8 AS result", b"", {}, fmt)
        if self.version:
            statement = statement.replace("version()", f"'{self.version}'")
        given = {name: value for name, value in settings.items() if name not in _NOT_SETTINGS}
        with self._lock:
            for name, value in {**dict.fromkeys(self._given, "DEFAULT"), **given}.items():
                if self._given.get(name) != value:
                    quoted = value if value == "DEFAULT" else f"'{value}'"
                    self._session.query(f"SET {name} = {quoted}")
            self._given = given
            if data:
                inserter = self._session.send_insert(statement, fmt)
                inserter.append(data)
                inserter.finish()
                return b""
            answer = self._session.query(statement, fmt)
            return bytes(answer.bytes() or b"")


class Handler(BaseHTTPRequestHandler):
    """One connection; errors are answered as ClickHouse answers them."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # head and body of an answer are two writes, between which it would wait 40 ms
    )
    engine: Engine

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        return

    def _answer(self) -> None:
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        given = self.headers.get("Authorization", "").removeprefix("Basic ")
        if base64.b64decode(given).decode() != f"{USER}:{PASSWORD}":
            self._refuse(403, 516, "Code: 516. DB::Exception: Authentication failed. (AUTHENTICATION_FAILED)")
            return
        if "query" in parameters:
            body = parameters["query"].encode() + b"\n" + body
        insert = _INSERT.match(body)
        if insert:
            statement, fmt, data = insert[1].decode(), insert[2].decode(), body[insert.end() :]
        else:
            statement, fmt, data = body.decode(), parameters.get("default_format", "TabSeparated"), b""
            if found := _FORMAT.search(statement):
                statement, fmt = statement[: found.start()], found[1]
        if self.path.startswith("/control?"):
            self.engine.lose, self.engine.refuse = int(parameters["lose"]), parameters["refuse"]
            parameters = {}
        try:
            if data and self.engine.refuse and re.search(rf"\.`?{self.engine.refuse}\b", statement):
                raise RuntimeError("Code: 241. DB::Exception: Memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)")
            answer = self.engine.run(statement, data, parameters, fmt)
            if data and self.engine.lose:
                self.engine.lose -= 1
                self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
        except Exception as error:
            code = _CODE.search(str(error))
            self._refuse(500, int(code[1]) if code else 1002, str(error))
            return
        self.send_response(200)
        self.send_header("X-ClickHouse-Format", fmt)
        self.send_header("X-ClickHouse-Summary", json.dumps({}))
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _refuse(self, status: int, code: int, said: str) -> None:
        data = said.encode()
        self.send_response(status)
        self.send_header("X-ClickHouse-Exception-Code", str(code))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Server:
    """The server as a process of its own, which tests may stop and kill."""

    def __init__(self, directory: Path, *, port: int = 0, environ: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.fakes.clickhouse",
                str(directory),
                str(port),
            ],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environ or {})},
            cwd=Path(__file__).resolve().parents[2],
        )
        assert self.process.stdout is not None
        said = iter(self.process.stdout.readline, "")  # the engine may have something to say first
        self.port = next((int(line) for line in said if line.strip().isdigit()), 0)
        assert self.port, "the engine did not start"

    def url(self, database: str, password: str = PASSWORD) -> str:
        """The address for --store."""
        return f"clickhouse://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def control(self, *, lose: int = 0, refuse: str = "") -> None:
        """From now on lose the answers to so many inserts, or refuse those into a table."""
        key = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/control?lose={lose}&refuse={refuse}&query=SELECT+1",
            headers={"Authorization": f"Basic {key}"},
        )
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked).close()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def main() -> None:
    """Serve until killed."""
    Handler.engine = Engine(Path(sys.argv[1]))
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
