"""The server as a process: where it says it is, who may enter, and how it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from loaderwatch.core.wire import MAX_ENVELOPE_BYTES
from loaderwatch.server import process
from loaderwatch.server.page import find_web
from tests.fakes.feed import Feed
from tests.fakes.page_session import sign_in
from tests.fakes.serving import EventReader, ServeProcess, wait_until
from tests.waiting import PATIENCE_S


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServeProcess]:
    with ServeProcess(tmp_path / "data", "--port", "0") as process:
        yield process


def test_it_says_where_it_is_and_cleans_up(server: ServeProcess) -> None:
    access = server.start()
    assert server.process is not None
    where = json.loads((server.data_dir / "server.json").read_text())
    assert where["pid"] == server.process.pid
    assert where["viewer_url"] == f"{access.url}/?token={access.owner}"
    for name in ("server.json", "token.json"):
        assert stat.S_IMODE((server.data_dir / name).stat().st_mode) == 0o600
    with access.client("") as client:
        assert client.get("/healthz").json()["status"] == "ok"
        assert client.get("/readyz").status_code == 200
    code, output, _ = server.stop()
    assert code == 0
    assert f"{access.url}/?token={access.owner}" in output
    assert output.count("token=") == 1
    assert not (server.data_dir / "server.json").exists()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_quickly_with_streams_open(server: ServeProcess, sig: int) -> None:
    access = server.start()
    access.send(Feed().envelope())
    with EventReader(access, "run-1") as first, EventReader(access, "run-1") as second:
        first.wait("a snapshot", lambda e: e["event"] == "snapshot")
        second.wait("a snapshot", lambda e: e["event"] == "snapshot")
        code, output, _ = server.stop(sig)  # streams are endless: waiting for them never ends
        assert code == 0, output
        assert first.ended.wait(PATIENCE_S)
    assert "Traceback" not in output


def test_a_second_server_on_the_same_data_is_told_where_the_first_is(server: ServeProcess) -> None:
    access = server.start()
    second = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "serve", "--data-dir", str(server.data_dir), "--port", "0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert second.returncode == 1
    assert access.url in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1
    with access.client() as client:
        assert client.get("/api/v1/runs").status_code == 200


@pytest.mark.parametrize("damage", ["\x00 not json", None])
def test_where_it_is_is_written_again(server: ServeProcess, damage: str | None) -> None:
    """Without that file no streamer would find this server again, and none could start another."""
    server.start()
    path = server.data_dir / "server.json"
    before = path.read_text()
    if damage is None:
        path.unlink()
    else:
        path.write_text(damage)
    wait_until("the file is whole again", lambda: path.exists() and path.read_text() == before)


def test_after_kill_nine_the_next_one_starts(server: ServeProcess) -> None:
    access = server.start()
    access.send(Feed().envelope())
    server.stop(signal.SIGKILL)
    (server.data_dir / "server.json").unlink()
    again = server.start()
    assert [run["run_id"] for run in again.get("/runs")] == ["run-1"]


def test_one_that_was_killed_comes_back_as_it_was(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    asked = (
        "--port",
        "0",
        "--token",
        "a token of my own",
        "--hang-after",
        "7",
        "--notify",
        "json://127.0.0.1:9/x",
    )
    with ServeProcess(data_dir, *asked) as first:
        url = first.start().url
        kept = data_dir / "serve.json"
        before = json.loads(kept.read_text())
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        first.stop(signal.SIGKILL)
    (data_dir / "server.json").unlink()  # so that the next one is waited for
    with ServeProcess(data_dir, "--resume") as second:
        access = second.start()
        assert access.url == url  # where open pages look for it
        with access.client("a token of my own") as client:
            assert client.get("/api/v1/runs").status_code == 200
        wait_until("the options again", lambda: json.loads(kept.read_text()) == before | {"resumed": True})
        assert (before["hang_after_s"], before["notify"]) == (7.0, ["json://127.0.0.1:9/x"])
        code, output, _ = second.stop()
        assert code == 0
        assert f"the page is at {url}/?token=…" in output, "what a job starts writes to a log"
        assert "a token of my own" not in output
    assert not kept.exists()
    with ServeProcess(data_dir, "--resume", "--port", "0") as third:  # the last one ended in order
        with third.start().client("a token of my own") as client:
            assert client.get("/api/v1/runs").status_code == 401
        third.stop(signal.SIGKILL)
    kept.write_text("{")
    (data_dir / "server.json").unlink()
    with ServeProcess(data_dir, "--resume", "--port", "0") as fourth:
        fourth.start()
        assert "serve.json is not readable" in fourth.stop()[1]


def test_a_port_asked_for_and_taken_is_an_error(server: ServeProcess, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        tried = subprocess.run(
            [
                sys.executable,
                "-m",
                "loaderwatch",
                "serve",
                "--data-dir",
                str(tmp_path / "d"),
                "--port",
                str(port),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    assert tried.returncode == 1
    assert str(port) in tried.stderr
    assert "Traceback" not in tried.stderr


def test_without_a_port_it_takes_one_and_keeps_it(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def is_taken() -> bool:
            with suppress(OSError):
                taken.bind(("127.0.0.1", 8790))
                return True
            return False

        wait_until("the default port is taken by us: another test may have it, and leave", is_taken)
        taken.listen()
        with ServeProcess(tmp_path / "data") as server:
            first = server.start().url
            assert not first.endswith(":8790")
            server.stop()
            assert server.start().url == first


def test_the_browser_flow(server: ServeProcess) -> None:
    access = server.start()
    with access.client("", follow_redirects=False) as browser:
        html = {"accept": "text/html"}
        assert "set-cookie" not in browser.get("/", params={"token": access.owner}, headers=html).headers
        page = browser.get("/", headers=html)
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        (main,) = re.findall(r'type="module" src="([^"]+)"', page.text)
        assert "immutable" in browser.get(main).headers["cache-control"]
        plotly = browser.get(main.replace("/js/main.js", "/vendor/plotly.min.js"))
        assert plotly.headers["content-encoding"] == "gzip"
        assert plotly.content == (find_web() / "vendor" / "plotly.min.js").read_bytes()
        assert "immutable" in plotly.headers["cache-control"]
        again = browser.get("/", headers={**html, "if-none-match": page.headers["etag"]})
        assert (again.status_code, page.headers["cache-control"]) == (304, "no-cache")
        # These headers replace those that the browser kept with the page.
        assert again.headers["content-security-policy"] == page.headers["content-security-policy"]
        assert browser.get("/api/v1/runs").status_code == 401
        session = sign_in(browser, access.owner)
        assert session.ask(browser, "GET", "/api/v1/runs").json() == []
        assert browser.get("/js/nothing.js").status_code == 404
        assert session.ask(browser, "GET", "/api/v1/nothing").status_code == 404
        evil = {"origin": "http://evil.example"}
        assert browser.post("/api/v1/alerts/x/ack", headers=evil).status_code == 403
        assert browser.get("/api/v1/runs", headers={"host": "evil.example"}).status_code == 403


def test_tokens_have_their_doors(server: ServeProcess) -> None:
    access = server.start()
    body = b"x"
    with access.client("wrong") as client:
        assert client.get("/api/v1/runs").status_code == 401
        assert client.post("/api/v1/ingest", content=body).status_code == 401
    with access.client(access.viewer) as client:
        assert client.post("/api/v1/ingest", content=body).status_code == 403
    with access.client(access.agent) as client:
        assert client.post("/api/v1/ingest", content=body).status_code == 400
        assert client.get("/api/v1/runs").status_code == 403


def test_a_body_over_the_limit_is_refused_whether_announced_or_not(server: ServeProcess) -> None:
    access = server.start()

    def endless() -> Iterator[bytes]:
        for _ in range(MAX_ENVELOPE_BYTES // 65536 + 2):
            yield b"x" * 65536

    with access.client(access.agent) as client:
        announced = client.post("/api/v1/ingest", content=b"x" * (MAX_ENVELOPE_BYTES + 1))
        assert announced.status_code == 413
    # The server may hang up before all was sent.
    with access.client(access.agent) as client, suppress(httpx.WriteError):
        assert client.post("/api/v1/ingest", content=endless()).status_code == 413
    with access.client(access.agent) as client:
        assert client.post("/api/v1/ingest", content=b"x").status_code == 400
    assert access.get("/runs") == []


def test_with_no_auth_its_owner_alone_deletes_a_run(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data", "--port", "0", "--no-auth") as server:
        access = server.start()
        feed = Feed()
        access.send(feed.envelope(steps=20))
        access.send(feed.envelope(steps=0, state="finished", final=True))
        wait_until("the end", lambda: access.get("/runs/run-1/summary")["state"] == "finished")
        with httpx.Client(base_url=f"{access.url}/api/v1", trust_env=False) as nobody:
            assert nobody.patch("/runs/run-1", json={"name": "mine"}).status_code == 200
            seen = nobody.get("/runs/run-1/contents").json()
            assert (seen["may_change"], seen["may_delete"]) == (True, False)
            assert nobody.request("DELETE", "/runs/run-1", json={"name": "mine"}).status_code == 401
        with access.client() as owner:
            assert owner.request("DELETE", "/api/v1/runs/run-1", json={"name": "mine"}).status_code == 200


def test_no_auth_lets_everyone_in_and_says_so(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data", "--port", "0", "--no-auth") as server:
        access = server.start()
        with access.client("") as client:
            assert client.get("/api/v1/runs").json() == []
            assert client.get("/api/v1/runs", headers={"host": "evil.example"}).status_code == 403
        _, output, _ = server.stop()
        assert "--no-auth" in output


def test_a_token_of_ones_own_does_everything(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "data", "--port", "0", "--token", "a-token-of-my-own") as server:
        access = server.start()
        with access.client("a-token-of-my-own") as client:
            assert client.get("/api/v1/runs").status_code == 200
            assert client.post("/api/v1/ingest", content=b"x").status_code == 400
        with access.client() as client:
            assert client.get("/api/v1/runs").status_code == 200


def test_the_address_with_the_token_is_the_one_at_which_the_server_listens(tmp_path: Path) -> None:
    """Another user may listen at the other addresses of a name."""
    with ServeProcess(tmp_path / "data", "--port", "0", "--host", "localhost") as server:
        access = server.start()
        port = urlsplit(access.url).port
        where = json.loads((server.data_dir / "server.json").read_text())
        with access.client() as client:
            assert client.get("/api/v1/runs").status_code == 200
        _, output, _ = server.stop()
    (printed,) = re.findall(r"the page is at (\S+)", output)
    addresses = {urlsplit(each).hostname for each in (printed, where["url"], where["viewer_url"])}
    assert len(addresses) == 1
    assert ip_address(addresses.pop() or "").is_loopback
    assert urlsplit(printed).port == port


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (["10.0.0.5"], "gpu01"),
        (["2001:db8::5", "127.0.1.1", "10.0.0.5"], "10.0.0.5"),
        (["2001:db8::5", "127.0.1.1"], "127.0.0.1"),
        ([], "gpu01"),
    ],
)
def test_the_machines_name_is_printed_where_all_its_addresses_are_the_servers(
    monkeypatch: pytest.MonkeyPatch, found: list[str], shown: str
) -> None:
    def resolved(*_: object, **__: object) -> list[Any]:
        if not found:
            raise socket.gaierror
        kinds = [socket.AF_INET6 if ":" in each else socket.AF_INET for each in found]
        return [(kind, 1, 6, "", (each, 0)) for kind, each in zip(kinds, found, strict=True)]

    with process._bind("0.0.0.0", 0) as listener:
        monkeypatch.setattr(socket, "getaddrinfo", resolved)
        assert process._shown_elsewhere("gpu01", listener, "127.0.0.1") == shown


def test_another_host_is_noticed(tmp_path: Path) -> None:
    with ServeProcess(
        tmp_path / "data", "--port", "0", "--host", "0.0.0.0", "--allow-host", "gpu01.example"
    ) as server:
        access = server.start()
        with access.client() as client:
            assert client.get("/api/v1/runs", headers={"host": "gpu01.example"}).status_code == 200
            assert client.get("/api/v1/runs", headers={"host": "evil.example"}).status_code == 403
        _, output, _ = server.stop()
        assert "other machines can reach this server" in output
        assert access.agent in output


def test_files_of_the_data_directory_are_private(server: ServeProcess) -> None:
    access = server.start()
    access.send(Feed().envelope())
    wait_until("the run's file", lambda: list((server.data_dir / "runs").glob("*.duckdb")))
    for path in (server.data_dir / "runs").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert (server.data_dir / "runs").stat().st_mode & 0o077 == 0
