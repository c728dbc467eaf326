"""``loaderwatch runs`` and ``loaderwatch analyze``, with a server and without."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.cli import main
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, ServeProcess, wait_until


def feed_a_stall(access: Access) -> None:
    """Sixty seconds of a loop that waits half its time."""
    feed = Feed()
    access.send(feed.envelope(steps=500))
    for _ in range(8):
        access.send(feed.envelope(steps=5))
    access.send(feed.envelope(steps=0, state="finished", final=True))


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(argv)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_runs_and_analyze_with_and_without_a_server(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(capsys, "runs", "--json") == (0, "[]\n", "")
    assert "loaderwatch.attach" in printed(capsys, "runs")[1]
    code, _, error = printed(capsys, "analyze", "run-1")
    assert code == 1
    assert "--data-dir" in error

    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        feed_a_stall(access)
        wait_until("the end", lambda: access.get("/runs")[0]["state"] == "finished")
        wait_until("the verdict", lambda: access.get("/runs")[0]["verdict"].startswith("Finished"))
        asked: list[dict[str, Any]] = json.loads(printed(capsys, "runs", "--json")[1])
        assert asked == access.get("/runs")
        code, out, _ = printed(capsys, "analyze", "run-1", "--json")
        assert code == 0
        assert json.loads(out) == access.get("/runs/run-1/findings")
        code, _, error = printed(capsys, "analyze", "nope")
        assert code == 1
        assert "run-1" in error
        server.stop()

    (row,) = json.loads(printed(capsys, "runs", "--json")[1])
    assert row["verdict"] == asked[0]["verdict"]
    table = printed(capsys, "runs")[1].splitlines()
    assert table[0].split()[:3] == ["RUN", "NAME", "STATE"]
    assert table[1].startswith("run-1")
    assert "finished" in table[1]

    for which in ("run-1", "train.py", str(data_dir / "runs" / "run-1.duckdb")):
        code, out, _ = printed(capsys, "analyze", which, "--hang-after", "30")
        assert code == 0
        assert out.startswith("train.py (run-1), 1 rank, finished")
        assert "Training waits for data" in out
        assert "Advice:" in out
    found = json.loads(printed(capsys, "analyze", "run-1", "--hang-after", "30", "--json")[1])
    assert found[0]["code"] == "input-bound"
    assert found[0]["state"] == "resolved"


def test_a_copied_file_is_analyzed_where_it_lies_and_not_changed(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ServeProcess(data_dir, "--port", "0") as server:
        feed_a_stall(server.start())
        server.stop()
    copy = tmp_path / "elsewhere" / "run-1.duckdb"
    copy.parent.mkdir()
    shutil.copy(data_dir / "runs" / "run-1.duckdb", copy)
    before = copy.read_bytes()
    code, out, _ = printed(capsys, "analyze", str(copy), "--hang-after", "30")
    assert code == 0
    assert "Training waits for data" in out
    assert copy.read_bytes() == before
    assert list(copy.parent.iterdir()) == [copy]
    code, _, error = printed(capsys, "analyze", str(tmp_path / "no.duckdb"))
    assert code == 1
    assert "no.duckdb" in error
    other = tmp_path / "passwd"
    other.write_text("root:x:0:0")
    code, _, error = printed(capsys, "analyze", str(other))
    assert code == 1
    assert f"{other} is no recording; name a .lwrec file" in error


@pytest.mark.parametrize("served", [True, False])
def test_a_crash_is_said_first_also_when_nothing_else_was_found(
    data_dir: Path, capsys: pytest.CaptureFixture[str], served: bool
) -> None:
    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        feed = Feed()
        access.send(feed.envelope(steps=20))
        last = feed.process(state="crashed", exit="exit code 3", steps=20)
        access.send(feed.envelope(steps=0, state="crashed", processes=[last], final=True))
        wait_until("the verdict", lambda: "exit code 3" in (access.get("/runs")[0]["verdict"] or ""))
        if not served:
            server.stop()
        (row,) = json.loads(printed(capsys, "runs", "--json")[1])
        code, out, _ = printed(capsys, "analyze", "run-1")
    assert code == 0
    head, _, rest = out.partition("\n\n")
    assert head == "train.py (run-1), 1 rank, crashed, 20 steps"
    assert " ".join(rest.split()).startswith(row["verdict"])
    assert "exit code 3" in row["verdict"]
    assert "  Advice: Read its last lines in the job's log. The script chose this exit code" in rest
    assert "Nothing found" not in out


def test_a_killed_servers_file_is_no_server(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import signal

    with ServeProcess(data_dir, "--port", "0") as server:
        access = server.start()
        access.send(Feed().envelope(steps=20))
        server.stop(signal.SIGKILL)
    assert (data_dir / "server.json").exists()
    (row,) = json.loads(printed(capsys, "runs", "--json")[1])
    assert row["run_id"] == "run-1"
