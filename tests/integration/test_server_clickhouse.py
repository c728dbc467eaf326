"""``loaderwatch serve --store clickhouse://…``: its errors, and its answers while the database is away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loaderwatch.core.wire import encode
from tests.fakes import clickhouse
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, ServeProcess, wait_until
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(clickhouse.missing() is not None, reason=str(clickhouse.missing()))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[clickhouse.Server]:
    server = clickhouse.Server(tmp_path / "engine")
    yield server
    server.kill()


def _steps(access: Access) -> int:
    return int(access.get("/runs/run-1/summary")["steps"] or 0)


def _stored_steps(access: Access) -> float:
    series = access.get("/runs/run-1/series", metric="steps_per_s", points=50)
    return sum(value is not None for value in series["t"])


def test_runs_are_kept_in_clickhouse_and_found_by_the_next_server(
    engine: clickhouse.Server, tmp_path: Path
) -> None:
    feed = Feed()
    kept = tmp_path / "password"
    kept.write_text(clickhouse.PASSWORD)
    url = engine.url("runs").replace(f":{clickhouse.PASSWORD}@", "@") + f"?password_file={kept}"
    with ServeProcess(tmp_path / "data", "--port", "0", "--store", url) as server:
        access = server.start()
        assert server.process is not None
        command_line = Path(f"/proc/{server.process.pid}/cmdline")
        assert not command_line.exists() or clickhouse.PASSWORD not in command_line.read_text()
        for _ in range(3):
            access.send(feed.envelope())
        wait_until("the steps are seen", lambda: _steps(access) == 15)
        _, output, _ = server.stop()
        assert clickhouse.PASSWORD not in output
        assert "Traceback" not in output
    assert not list((tmp_path / "data" / "runs").glob("*"))
    with ServeProcess(tmp_path / "data", "--port", "0", "--store", url) as server:
        access = server.start()
        assert [run["run_id"] for run in access.get("/runs")] == ["run-1"]
        wait_until("the steps are seen again", lambda: _steps(access) == 15)
        assert access.send(feed.envelope())["stored_seq"] == 4
        wait_until("the next steps are seen", lambda: _steps(access) == 20)


def test_while_clickhouse_is_away_senders_are_asked_to_come_again(
    engine: clickhouse.Server, tmp_path: Path
) -> None:
    feed = Feed()
    with ServeProcess(tmp_path / "data", "--port", "0", "--store", engine.url("runs")) as server:
        access = server.start()
        access.send(feed.envelope())
        engine.kill()
        with access.client(access.agent) as client:
            held = encode(feed.envelope())
            for _ in range(3):
                answer = client.post("/api/v1/ingest", content=held)
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
                assert "store not reachable since" in answer.json()["error"]
        with access.client() as client:
            assert client.get("/readyz").status_code == 503
            assert client.get("/healthz").status_code == 200
            chart = client.get("/api/v1/runs/run-1/series", params={"metric": "wait_s"})
            assert chart.status_code == 503
            assert "store not reachable since" in chart.json()["error"]
            assert client.get("/api/v1/runs").status_code == 200  # from memory
            assert client.get("/api/v1/runs/run-1/summary").status_code == 200
        engine = clickhouse.Server(tmp_path / "engine", port=engine.port)
        try:
            with access.client(access.agent) as client:
                answer = client.post("/api/v1/ingest", content=held)
                assert (answer.status_code, answer.json()["stored_seq"]) == (200, 2)
                assert client.get("/readyz").status_code == 200
            wait_until("both envelopes are seen", lambda: _steps(access) == 10)
            _, output, _ = server.stop()
            assert output.count("does not answer") <= 10
            assert "answers again" in output
            assert "Traceback" not in output
            assert "Unexpected Http Driver" not in output
            assert clickhouse.PASSWORD not in output
        finally:
            engine.kill()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("postgres://a:wrong-password@db/x", "--store takes clickhouse://"),
        ("clickhouse://a:wrong-password@127.0.0.1:9/x", "does not answer"),
        ("wrong", "does not let the user 'watcher' in"),
    ],
)
def test_a_store_that_cannot_be_used_is_one_line_and_no_server(
    engine: clickhouse.Server, tmp_path: Path, address: str, said: str
) -> None:
    address = engine.url("x", password="wrong-password") if address == "wrong" else address
    ended = subprocess.run(
        [sys.executable, "-m", "loaderwatch", "serve", "--data-dir", tmp_path / "data", "--port", "0",
         "--store", address],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 2
    assert said in ended.stderr
    assert ended.stdout == ""
    assert "wrong-password" not in ended.stderr
    assert [line for line in ended.stderr.splitlines() if line.startswith("loaderwatch: ")]
    assert not (tmp_path / "data" / "server.json").exists()
