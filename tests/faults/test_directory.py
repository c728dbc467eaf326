"""One data directory: two servers, a lock left behind, another program in a run's file, damaged files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.cluster import BUSY_S, RUN, Cluster, wait_for
from tests.faults.light import start_light, states_of_ranks


def _serve(data_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "loaderwatch", "serve", "--data-dir", str(data_dir), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _says(data_dir: Path) -> int | None:
    """Whom ``server.json`` names; after a kill it is the one before, until the next one serves."""
    try:
        return int(json.loads((data_dir / "server.json").read_text())["pid"])
    except FileNotFoundError:
        return None


def _race(data_dir: Path) -> None:
    """Two at once: one serves, the other names it and its pid, and ends with 1."""
    both = [_serve(data_dir) for _ in range(2)]
    try:
        wait_for(lambda: any(one.poll() is not None for one in both))
        loser, winner = sorted(both, key=lambda one: one.poll() is None)
        _, said = loser.communicate(timeout=BUSY_S)
        assert loser.returncode == 1, said
        assert len(said.strip().splitlines()) == 1, said
        assert "is already running" in said
        assert f"(pid {winner.pid}" in said
        wait_for(lambda: _says(data_dir) == winner.pid)
        winner.send_signal(signal.SIGTERM)
        out, err = winner.communicate(timeout=BUSY_S)
        assert winner.returncode == 0, err
        assert "the page is at" in out
    finally:
        for one in both:
            if one.poll() is None:
                one.kill()
            one.communicate(timeout=BUSY_S)


def test_two_servers_start_at_once(tmp_path: Path) -> None:
    _race(tmp_path / "data")


@pytest.mark.long
def test_two_servers_start_at_once_ten_times(cluster: Cluster) -> None:
    """On a directory that holds a run, over kills that leave locks and files behind."""
    cluster.server.start()
    start_light(cluster.host)
    cluster.host.wait_for_steps()
    cluster.settle()
    cluster.server.kill()
    for _ in range(10):
        _race(cluster.server.data_dir)
        left = _serve(cluster.server.data_dir)
        try:
            wait_for(
                lambda: _says(cluster.server.data_dir) == left.pid  # noqa: B023 - called in this round only
            )
        finally:
            left.kill()
            left.communicate(timeout=BUSY_S)
    cluster.prove()


@pytest.mark.long
def test_another_program_is_in_a_runs_file(cluster: Cluster) -> None:
    """Somebody opens a run with DuckDB's shell while no server runs; envelopes wait until it is closed."""
    cluster.server.start()
    host = cluster.host
    start_light(host)
    wait_for(lambda: states_of_ranks(cluster) == ["live"])
    cluster.server.kill()
    shell = subprocess.Popen(
        [sys.executable, "-c",
         "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('in', flush=True); input()",
         str(cluster.server.data_dir / "runs" / f"{RUN}.duckdb")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "in\n"
        cluster.server.start()
        log = cluster.server.data_dir / "server.log"
        wait_for(lambda: "is open in another process" in log.read_text())
        assert str(shell.pid) in log.read_text(), "who it is"
        # And the other way round, while the server has the file.
    finally:
        shell.communicate("\n", timeout=BUSY_S)
    wait_for(lambda: states_of_ranks(cluster) == ["live"])
    late = subprocess.run(
        [sys.executable, "-c", "import duckdb, sys; duckdb.connect(sys.argv[1], read_only=True)",
         str(cluster.server.data_dir / "runs" / f"{RUN}.duckdb")],
        capture_output=True, text=True, timeout=BUSY_S,
    )  # fmt: skip
    assert "lock" in late.stderr.lower()
    cluster.prove()


@pytest.mark.long
def test_files_are_damaged(cluster: Cluster) -> None:
    """Each is set aside or recreated, with a message that names it; the run goes on."""
    data = cluster.server.data_dir
    cluster.server.start()
    start_light(cluster.host, "before")
    cluster.host.wait_for_steps(run="before")
    cluster.settle()
    cluster.server.stop()
    file = data / "runs" / "before.duckdb"
    file.write_bytes(file.read_bytes()[:5000])
    (data / "runs" / "before.json").write_text("{")
    (data / "verdicts.json").write_bytes(b"\xff{")
    (data / "server.json").write_text("no json")
    (data / "serve.json").write_text("[")
    (data / "port").write_text("many")
    cluster.server.start()
    steps = cluster.host.steps("before")
    start_light(cluster.host)
    start_light(cluster.host, "before")
    cluster.host.wait_for_steps(steps + 5, "before")
    wait_for(lambda: states_of_ranks(cluster) == ["live"])
    time.sleep(1.5)
    assert json.loads((data / "server.json").read_text())["url"] == cluster.server.url
    cluster.settle()
    assert [path.name.split(".corrupt-")[0] for path in sorted((data / "runs").glob("*.corrupt-*"))] == [
        "before.duckdb",
        "before.json",
    ]
    assert "before.duckdb is not a readable run" in (data / "server.log").read_text()
    cluster.prove()


def test_damaged_tokens_are_left_alone_and_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "token.json").write_text("not tokens")
    refused = _serve(data)
    _, said = refused.communicate(timeout=BUSY_S)
    assert refused.returncode == 2
    assert str(data / "token.json") in said
    assert "delete it" in said
    assert (data / "token.json").read_text() == "not tokens"
