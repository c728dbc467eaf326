"""How long a server stays: it leaves when nobody needs it, ends on request, and returns when needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from loaderwatch.core.lock import is_held, wait_for_lock
from loaderwatch.core.server_trust import new_challenge
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, EventReader, ServeProcess, wait_until
from tests.fakes.streaming import Streaming

pytestmark = pytest.mark.slow

SOON = ("--port", "0", "--idle-hours", "0.0005")  # 1.8 s


def loaderwatch(*arguments: str, data_dir: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "loaderwatch", *arguments],
        env={**os.environ, "LOADERWATCH_DIR": str(data_dir), **env},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def gone(server: ServeProcess) -> str:
    """What a server said that has ended by itself, in order."""
    assert server.process is not None
    output, _ = server.process.communicate(timeout=60)
    assert server.process.returncode == 0, output
    assert not (server.data_dir / "server.json").exists()
    return output


def where(data_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((data_dir / "server.json").read_bytes())
    return found


def alive(server: ServeProcess) -> bool:
    return server.process is not None and server.process.poll() is None


def test_it_leaves_when_nobody_looks_and_is_back_at_its_address(data_dir: Path) -> None:
    """Whoever asks only whether it is there, or which one it is, does not look at it."""
    with ServeProcess(data_dir, "--started-by", "run", *SOON) as server:
        first = server.start()
        asked = 0
        with suppress(httpx.TransportError), first.client() as client:  # it ends in the middle of an answer
            while alive(server):
                for path in ("/healthz", f"/api/v1/identity?challenge={new_challenge()}", "/api/v1/server"):
                    assert client.get(path).status_code == 200
                    asked += 1
        assert asked
        said = gone(server)
    assert "nobody has looked for 1.8 s: this server leaves" in said
    assert "LOADERWATCH_IDLE_HOURS" in said
    assert first.owner not in said, "it goes to a log"
    with ServeProcess(data_dir, "--started-by", "run") as server:
        assert server.start() == first, "address and tokens, so that open pages and bookmarks go on"


def test_it_stays_while_somebody_looks_or_a_run_reports(data_dir: Path) -> None:
    feed = Feed()
    with ServeProcess(data_dir, *SOON) as server:
        access = server.start()
        access.send(feed.envelope())
        with EventReader(access, "run-1") as page:
            wait_until("two heartbeats, 5 s apart", lambda: page.heartbeats >= 2, 60)
            assert alive(server)
        gone(server)


def test_one_that_a_person_started_stays(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the environment is for those that runs start; each can be told otherwise."""
    for number, (arguments, hours) in enumerate(
        [((), None), (("--started-by", "run"), 1.5), (("--started-by", "run", "--idle-hours", "0"), None)]
    ):
        folder = data_dir / str(number)
        env = {"LOADERWATCH_DIR": str(folder), "LOADERWATCH_IDLE_HOURS": "1.5"}
        process = subprocess.Popen(
            [sys.executable, "-m", "loaderwatch", "serve", "--port", "0", *arguments],
            env=os.environ | env,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            wait_until("it is up", (folder / "server.json").exists, 60)
            done = loaderwatch("runs", "--server", "--json", data_dir=folder)
            facts = json.loads(done.stdout)
            assert (facts["idle_hours"], facts["pid"]) == (hours, process.pid)
            assert (facts["leaves_at"] is None) == (hours is None)
        finally:
            process.kill()
            process.wait()
    wrong = loaderwatch("serve", "--started-by", "run", data_dir=data_dir, LOADERWATCH_IDLE_HOURS="soon")
    assert (wrong.returncode, wrong.stderr) == (
        2,
        "loaderwatch: LOADERWATCH_IDLE_HOURS is 'soon'; use a number of hours, such as 4, or 0 for never\n",
    )
    assert loaderwatch("serve", "--idle-hours", "-1", data_dir=data_dir).returncode == 2


def test_a_run_that_starts_as_the_server_leaves_gets_another(data_dir: Path) -> None:
    """The new server waits until the old one has ended and released its lock. Nobody sees a failure."""
    with Streaming(data_dir, None) as it:
        del it.environ["LOADERWATCH_TOKEN"]
        data_dir.mkdir()
        lock = os.open(data_dir / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
        wait_for_lock(lock)
        writer = it.write()
        it.stream()
        wait_until("the next server", lambda: it.pids("serve"), 60)
        log = it.settings.logs_dir / "server.log"
        with pytest.raises(AssertionError, match="not within"):
            wait_until("it gives up", lambda: not it.pids("serve"), 3)
        os.close(lock)
        wait_until("its address", lambda: (data_dir / "server.json").exists(), 60)
        wait_until("the run", lambda: list(it.settings.runs_dir.glob("*.duckdb")), 60)
        assert "already running" not in log.read_text()
        assert where(data_dir)["pid"] in it.pids("serve")
        assert writer.poll() is None


def test_stop_ends_it_and_a_run_that_goes_on_starts_another(data_dir: Path) -> None:
    with Streaming(data_dir, None) as it, ServeProcess(data_dir, "--port", "0") as server:
        del it.environ["LOADERWATCH_TOKEN"]
        access = server.start()
        it.write()
        it.stream(name="train.py")
        wait_until("the run", lambda: access.get("/runs") and access.get("/runs")[0]["state"] == "live", 60)
        refused = loaderwatch("stop", data_dir=data_dir)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"the server at {access.url} goes on: train.py is reporting" in refused.stderr
        assert "--force" in refused.stderr
        assert alive(server)
        assert server.process is not None
        done = loaderwatch("stop", "--force", data_dir=data_dir)
        assert done.returncode == 0, done.stderr
        first, second = done.stdout.splitlines()
        assert (
            first == f"The server at {access.url} (pid {server.process.pid}) has ended."
            f" Its runs stay in {data_dir}."
        )
        assert second == "train.py was reporting and starts another server within a minute."
        output = server.process.communicate(timeout=20)[0]
        assert server.process.returncode == 0
        assert "Traceback" not in output
        wait_until("another one", lambda: (data_dir / "server.json").exists(), 90)
        now = Access(where(data_dir)["url"], access.agent, access.viewer, access.owner)
        assert now.url == access.url
        stopped_at = now.get("/server")["started_at"]
        wait_until("what comes after", lambda: now.get("/runs")[0]["last_seen_at"] > stopped_at, 60)
        assert now.get("/server")["started_by"] == "run"


def test_stop_signals_nobody(data_dir: Path) -> None:
    """What a killed server left behind names a process that is somebody else's by now."""
    none = loaderwatch("stop", data_dir=data_dir)
    assert (none.returncode, none.stderr) == (0, "")
    assert none.stdout == f"No server is up for {data_dir}: there is nothing to stop.\n"
    with ServeProcess(data_dir, "--port", "0") as server:
        server.start()
        server.stop(signal.SIGKILL)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        left = where(data_dir) | {"pid": stranger.pid}
        (data_dir / "server.json").write_text(json.dumps(left))
        (data_dir / "server.lock").write_text(str(stranger.pid))
        done = loaderwatch("stop", "--force", data_dir=data_dir)
        assert (done.returncode, done.stdout) == (0, none.stdout)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_stop_says_when_a_server_stands_still(data_dir: Path) -> None:
    with ServeProcess(data_dir, "--port", "0") as server:
        server.start()
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        done = loaderwatch("stop", data_dir=data_dir)
        assert (done.returncode, done.stdout) == (1, "")
        assert "does not answer" in done.stderr
        assert f"end process {server.process.pid} yourself" in done.stderr
        assert is_held(data_dir / "server.lock")


def test_with_no_auth_its_owner_alone_may_stop_it(data_dir: Path) -> None:
    with ServeProcess(data_dir, "--port", "0", "--no-auth") as server:
        access = server.start()
        for token in ("", access.viewer, access.agent):
            with access.client(token) as client:
                assert client.get("/api/v1/runs").status_code == 200
                assert client.post("/api/v1/server/stop").status_code == 401
        with access.client() as client:
            assert client.post("/api/v1/server/stop", content=b"[]").status_code == 400
        assert loaderwatch("stop", data_dir=data_dir).returncode == 0
        gone(server)


def test_runs_says_which_server_is_up(data_dir: Path) -> None:
    nothing = loaderwatch("runs", data_dir=data_dir)
    assert nothing.stdout.splitlines()[-1].startswith("No server is up; ")
    assert json.loads(loaderwatch("runs", "--server", "--json", data_dir=data_dir).stdout) is None
    with ServeProcess(data_dir, "--port", "0", "--started-by", "run", "--idle-hours", "3") as server:
        access = server.start()
        assert server.process is not None
        access.send(Feed().envelope())
        *table, last = loaderwatch("runs", data_dir=data_dir).stdout.splitlines()
        assert last.startswith(
            f"Server: {access.url} (pid {server.process.pid}, {data_dir}), started by a run at "
        )
        assert "; leaves at " in last
        assert "token" not in last
        assert [line.split()[0] for line in table] == ["RUN", "run-1"]
        listed = json.loads(loaderwatch("runs", "--json", data_dir=data_dir).stdout)
        assert [run["run_id"] for run in listed] == ["run-1"], "a list, as ever"
        only = loaderwatch("runs", "--server", data_dir=data_dir).stdout.splitlines()
        assert len(only) == 1
