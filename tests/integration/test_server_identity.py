"""A process that listens in place of our server gets nothing: no token, no stack, no path."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

import loaderwatch
from loaderwatch.cli import main
from loaderwatch.core.answers import Finding
from loaderwatch.core.client import Client, ServerError, find_own_server
from loaderwatch.core.config import load_settings
from loaderwatch.core.server_trust import check_proof, new_challenge
from loaderwatch.supervisor.restart import save
from loaderwatch.supervisor.watch import JobRuns, Watch
from tests.fakes.feed import Feed
from tests.fakes.impostor import Impostor
from tests.fakes.receiver import TOKEN, Receiver
from tests.fakes.serving import Access, ServeProcess, serving
from tests.fakes.streaming import Streaming, kill, wait_for
from tests.waiting import PATIENCE_S, wait_until

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


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def killed(server: ServeProcess, impostor: Impostor) -> None:
    """Kill the server, and wait until the impostor has its port. ``server.json`` stays."""
    server.kill()
    impostor.listens()


HEALTHY = """
import sys, time
from pathlib import Path
import torch
from torch.utils.data import DataLoader, TensorDataset

with Path(sys.argv[1], "began").open("a") as began:
    began.write("began ")
for batch in DataLoader(TensorDataset(torch.arange(4e6)), batch_size=4):
    time.sleep(0.02)
    if Path(sys.argv[1], "enough").exists():
        break
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs Linux's /proc")
def test_who_takes_the_servers_port_cannot_have_a_job_restarted(data_dir: Path, tmp_path: Path) -> None:
    """The supervisor asks once a second for the whole job, and each time another process may answer."""
    (tmp_path / "train.py").write_text(HEALTHY)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("LOADERWATCH_")}
    command = [sys.executable, "-m", "loaderwatch", "run", "--restart-on-hang", "3", "--after", "1s"]
    command += ["--restart-pause", "1s", "--on-alert", f"cat >> {tmp_path / 'alerts'}"]
    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        with (
            (tmp_path / "said").open("w") as said,
            Impostor(tmp_path / "impostor", port_of(access.url)) as impostor,
        ):
            job = subprocess.Popen(
                [*command, str(tmp_path / "train.py"), str(tmp_path)],
                env={**environ, "LOADERWATCH_DIR": str(data_dir)},
                stderr=said,
                start_new_session=True,
            )
            try:
                wait_until("the run is known", lambda: access.get("/runs"))
                (run,) = access.get("/runs")
                killed(server, impostor)
                before = impostor.challenges
                wait_until("it is asked again and again", lambda: impostor.challenges > before + 4)
                where = data_dir / "server.json"

                def moved() -> str | None:
                    url: str = json.loads(where.read_text())["url"]
                    return url if url != access.url else None

                new = Access(wait_until("a new server", moved), access.agent, access.viewer, access.owner)
                impostor.relay(new.url)
                reached = wait_until("the run goes on there", lambda: new.get("/runs"))
                assert [row["run_id"] for row in reached] == [run["run_id"]]
                assert job.poll() is None
                (tmp_path / "enough").touch()
                assert job.wait(PATIENCE_S) == 0, (tmp_path / "said").read_text()
            finally:
                if job.poll() is None:
                    os.killpg(job.pid, signal.SIGKILL)
                job.wait(PATIENCE_S)
        heard = impostor.heard
    assert (tmp_path / "began").read_text().split() == ["began"], "the job was never ended"
    assert not (tmp_path / "alerts").exists()
    assert "Authorization" not in heard
    assert "POST" not in heard
    assert (os.geteuid() != 0) or "listens as 65534" in heard


def test_a_watch_finds_the_next_server_and_asks_nobody_else(data_dir: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, list[str]]] = []

    def observe(client: Client, run_id: str, findings: Sequence[Finding]) -> None:
        seen.append((client.url, [finding.title for finding in findings]))

    feed = Feed()
    with ServeProcess(data_dir, "--port", "0") as server, ServeProcess(data_dir, "--port", "0") as next_one:
        access = server.start()
        access.send(feed.envelope())
        runs = JobRuns(load_settings().rings_dir, os.getpid(), ["run-1"])
        watch = Watch(runs, [observe])
        watch.start()
        try:
            wait_until("it looks", lambda: seen)
            with Impostor(tmp_path / "impostor", port_of(access.url)) as impostor:
                killed(server, impostor)
                before = impostor.challenges
                wait_until("it asks for a proof", lambda: impostor.challenges > before)
                (data_dir / "server.json").unlink()  # a server that starts replaces it
                new = next_one.start()
                wait_until("it looks at the next server", lambda: seen[-1][0] == new.url)
                assert "Authorization" not in impostor.heard
        finally:
            watch.stop()
            watch.join(PATIENCE_S)
    assert {title for _, titles in seen for title in titles} & {"Rank 0 hangs."} == set()


def test_a_watch_believes_no_server_that_cannot_prove_itself(
    data_dir: Path,
    free_port: int,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Without a token there is no proof, and any process on its port could end a healthy job."""
    seen: list[str] = []
    said: list[str] = []
    with Impostor(tmp_path / "impostor", free_port) as impostor:
        impostor.listens()
        monkeypatch.setenv("LOADERWATCH_SERVER", f"http://127.0.0.1:{free_port}")
        runs = JobRuns(load_settings().rings_dir, os.getpid(), ["run-1"])
        watch = Watch(runs, [lambda client, run_id, findings: seen.append(run_id)])
        watch.start()
        try:

            def told() -> bool:
                said.append(capfd.readouterr().err)
                return "LOADERWATCH_TOKEN" in "".join(said)

            wait_until("it says so", told)
        finally:
            watch.stop()
            watch.join(PATIENCE_S)
        assert "GET" not in impostor.heard
    assert seen == []


def call(what: str, client: Client) -> object:
    asks: dict[str, Callable[[], object]] = {
        "runs": client.runs,
        "findings": lambda: client.findings("run-1"),
        "stop": lambda: client.stop(force=True),
        "recording": lambda: client.recording("run-1", None),
        "stacks": lambda: client.fresh_stacks("run-1", None, 1.0),
        "import": lambda: client.bring("run-1", 0, b"a part"),
    }
    return asks[what]()


@pytest.mark.parametrize("relayed", [False, True], ids=["alone", "relayed"])
def test_a_client_that_was_found_before_sends_nothing_to_who_took_the_port(
    data_dir: Path, tmp_path: Path, relayed: bool
) -> None:
    """Also if the next server runs already and would answer the challenge that the impostor passes on."""
    with ServeProcess(data_dir, "--port", "0") as server, ServeProcess(data_dir, "--port", "0") as next_one:
        access = server.start()
        access.send(Feed().envelope())
        client = find_own_server(data_dir, "owner")
        assert client is not None
        assert [row.run_id for row in client.runs()] == ["run-1"]
        with Impostor(tmp_path / "impostor", port_of(access.url)) as impostor:
            killed(server, impostor)
            if relayed:
                (data_dir / "server.json").unlink()
                impostor.relay(next_one.start().url)
            for what in ("runs", "findings", "stop", "recording", "stacks", "import"):
                with pytest.raises(ServerError, match="has not proven"):
                    call(what, client)
            settings = load_settings({"LOADERWATCH_DIR": str(data_dir)})
            assert save(client, settings, "run-1") == [] or relayed
            assert "Authorization" not in impostor.heard
            assert "POST" not in impostor.heard
            assert impostor.challenges >= 6


@pytest.mark.parametrize(
    "command",
    [
        ["runs"],
        ["runs", "--server"],
        ["stacks", "run-1"],
        ["stop"],
        ["token", "rotate"],
        ["export", "run-1", "/nowhere/out.lwrec"],
        ["analyze", "run-1"],
        ["doctor", "run-1"],
        ["compare", "run-1", "run-2"],
    ],
    ids=" ".join,
)
def test_no_command_sends_a_token_to_who_took_the_port(
    data_dir: Path, tmp_path: Path, command: list[str]
) -> None:
    """The port is taken after the command has found the server: only its first connection is real."""
    with serving(data_dir) as access:
        access.send(Feed().envelope())
        (data_dir / "token.json").write_text(
            json.dumps({"agent": access.agent, "viewer": access.viewer, "owner": access.owner})
        )
        with OnceReal(access.url) as port:
            (data_dir / "server.json").write_text(json.dumps({"url": port.url, "pid": 1}))
            main(command)
    assert port.connections >= 1
    assert b"uthorization" not in port.heard
    assert b"POST" not in port.heard


def test_the_pages_address_is_given_only_where_our_server_answers(data_dir: Path) -> None:
    """It carries the owner's token, which a browser would send to any process on that port."""
    data_dir.mkdir()
    with serving(data_dir) as access, Eavesdropper() as eavesdropper:
        (data_dir / "token.json").write_text(json.dumps({"agent": "a", "owner": access.owner}))
        for url in (eavesdropper.url, access.url):
            where = {"url": url, "pid": 1, "viewer_url": f"{url}/?token={access.owner}"}
            (data_dir / "server.json").write_text(json.dumps(where))
            assert loaderwatch.url() == ("" if url == eavesdropper.url else where["viewer_url"])
    assert access.owner.encode() not in eavesdropper.heard


class OnceReal:
    """A port at which one connection leads to the real server. All later ones lead to somebody else."""

    def __init__(self, url: str) -> None:
        self.heard = bytearray()
        self.connections = 0
        self._real = urlsplit(url).netloc.partition(":")
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                if self.connections == 1:
                    self._pass_on(connection)
                else:
                    self._answer(connection)

    def _pass_on(self, connection: socket.socket) -> None:
        host, _, port = self._real
        with socket.create_connection((host, int(port)), PATIENCE_S) as real:
            real.sendall(connection.recv(65536))
            connection.sendall(real.recv(65536))

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(2)
        try:
            while data := connection.recv(65536):
                self.heard += data
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        except OSError:
            return

    def __enter__(self) -> OnceReal:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
