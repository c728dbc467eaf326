"""Whoever listens where our server was gets nothing: no token, no stack, no path."""

from __future__ import annotations

import json
import select
import socket
import threading
from pathlib import Path

import httpx
import pytest

from loaderwatch.cli import main
from loaderwatch.core.trust import check_proof, new_challenge
from tests.fakes.receiver import TOKEN, Receiver
from tests.fakes.serving import serving
from tests.fakes.streaming import Streaming, kill, wait_for
from tests.waiting import PATIENCE_S

MARKER = b"a-secret"  # in the token and in what the job says of itself


class Eavesdropper:
    """Listens, answers nothing of use, and keeps every byte that it is sent."""

    def __init__(self, port: int = 0) -> None:
        self.heard = bytearray()
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(2)
                try:
                    while data := connection.recv(65536):
                        self.heard += data
                        # Says yes to everything, whatever it is asked.
                        connection.sendall(
                            b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n" + b'{"proofs": [0]}'
                        )
                except OSError:
                    continue

    def __enter__(self) -> Eavesdropper:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread, which holds it open
        self._socket.close()


def test_who_takes_the_servers_port_gets_nothing_and_the_job_hears_of_it(
    data_dir: Path, free_port: int
) -> None:
    """The server dies in the middle of a run, another process listens there, then the server comes back."""
    with Streaming(data_dir, f"http://127.0.0.1:{free_port}") as it:
        with Receiver(free_port) as server:
            trainee = it.write()
            it.stream()
            server.wait_for(lambda: len(server.envelopes) > 2)
            assert server.challenges == 1, "once per connection, not per envelope"
        with Receiver(free_port, token="the impostor does not know it") as impostor:
            wait_for(lambda: impostor.challenges)
            wait_for(lambda: "has not proven" in it.log())
        assert impostor.tokens == []
        with Eavesdropper(free_port) as eavesdropper:
            wait_for(lambda: b"challenge=" in eavesdropper.heard)
        assert MARKER not in eavesdropper.heard
        assert b"POST" not in eavesdropper.heard
        with Receiver(free_port) as server_again:
            newest = max(seq for _, seq in server.envelopes)
            server_again.wait_for(lambda: len(server_again.envelopes) > 3)
            assert min(seq for _, seq in server_again.envelopes) == newest + 1, "what was kept back is sent"
            kill(trainee.pid)
            trainee.wait(PATIENCE_S)
        assert trainee.stderr is not None
        said = [line for line in trainee.stderr.read().splitlines() if "has not proven" in line]
        assert len(said) == 1
        assert "LOADERWATCH_TOKEN" in said[0]


def test_without_a_token_no_server_can_prove_itself(data_dir: Path) -> None:
    with Receiver() as receiver, Streaming(data_dir, receiver.url, LOADERWATCH_TOKEN="") as it:
        trainee = it.write()
        it.stream()
        stderr = trainee.stderr
        assert stderr is not None
        wait_for(lambda: select.select([stderr], [], [], 0)[0])
        kill(trainee.pid)
        trainee.wait(PATIENCE_S)
        assert "there is no token to check it by" in stderr.read()
        assert receiver.tokens == []


def test_somebody_at_the_address_of_the_local_server_does_not_stop_the_job_from_starting_its_own(
    data_dir: Path,
) -> None:
    """The server was killed and left its file; by now somebody else listens there."""
    data_dir.mkdir()
    with Eavesdropper() as eavesdropper, Streaming(data_dir, None, LOADERWATCH_TOKEN="") as it:
        (data_dir / "server.json").write_text(json.dumps({"url": eavesdropper.url, "pid": 1}))
        (data_dir / "token.json").write_text(
            json.dumps({"agent": TOKEN, "viewer": "a-secret too, for pages"})
        )
        it.write()
        it.stream()
        wait_for(lambda: json.loads((data_dir / "server.json").read_text())["url"] != eavesdropper.url)
        where = json.loads((data_dir / "server.json").read_text())["url"]

        def arrived() -> bool:
            with httpx.Client(
                trust_env=False, headers={"authorization": "Bearer a-secret too, for pages"}
            ) as client:
                return bool(client.get(f"{where}/api/v1/runs").json())

        wait_for(arrived)
    assert b"challenge=" in eavesdropper.heard
    assert MARKER not in eavesdropper.heard


def test_the_command_line_sends_no_token_to_a_stranger(
    data_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir.mkdir()
    with Eavesdropper() as eavesdropper:
        (data_dir / "server.json").write_text(json.dumps({"url": eavesdropper.url, "pid": 1}))
        (data_dir / "token.json").write_text(json.dumps({"agent": TOKEN, "viewer": TOKEN}))
        assert main(["runs", "--data-dir", str(data_dir)]) == 0, "it reads the files instead"
        monkeypatch.setenv("LOADERWATCH_SERVER", eavesdropper.url)
        monkeypatch.setenv("LOADERWATCH_TOKEN", TOKEN)
        assert main(["runs"]) == 1
        said = capsys.readouterr().err
        assert "has not proven" in said
        assert "LOADERWATCH_TOKEN" in said
    assert b"challenge=" in eavesdropper.heard
    assert MARKER not in eavesdropper.heard
    assert main(["runs"]) == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_every_server_proves_itself_with_every_token_it_knows(tmp_path: Path) -> None:
    with serving(tmp_path) as access, access.client("") as client:
        for token in (access.agent, access.viewer):
            challenge = new_challenge()
            answer = client.get("/api/v1/identity", params={"challenge": challenge})
            assert answer.status_code == 200
            check_proof(token, challenge, answer.content)
        for bad in ("", "x", "0" * 31, "0" * 129, "z" * 32):
            answer = client.get("/api/v1/identity", params={"challenge": bad})
            assert answer.status_code == 400, bad
            assert answer.json()["field"] == "challenge"


def test_a_server_that_lets_everyone_in_still_proves_itself(data_dir: Path) -> None:
    """--no-auth opens the page; who sends stacks there asks all the same."""
    with serving(data_dir, open_to_all=True) as access, access.client("") as client:
        assert client.get("/api/v1/runs").status_code == 200
        challenge = new_challenge()
        answer = client.get("/api/v1/identity", params={"challenge": challenge})
        check_proof(access.agent, challenge, answer.content)
