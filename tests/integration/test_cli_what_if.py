"""``loaderwatch analyze --what-if`` gives the same for a recorded run from its recording, file and server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.cli import main
from loaderwatch.server.recordings import recording
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.serving import ServeProcess

RECORDINGS = Path(__file__).resolve().parents[1] / "scenarios" / "recordings"


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["analyze", *argv]) == 0
    return capsys.readouterr().out


def test_a_table_for_each_loader(capsys: pytest.CaptureFixture[str]) -> None:
    """A repro without workers on two CPUs, whose model computes for next to nothing."""
    path = str(RECORDINGS / "repro_a.lwrec")
    text = printed(capsys, path, "--what-if")
    assert text.startswith(printed(capsys, path).rstrip("\n")), "below the findings"
    *_, table = text.split("of rank 0:")
    lines = table.splitlines()
    (today,) = [line for line in lines if line.endswith("today")]
    assert today.split()[:2] == ["num_workers=0", "15"]
    (knee,) = [line for line in lines if "as good as any" in line]
    assert "num_workers=3 " in knee
    assert "saves 3" in knee
    assert any(line.split()[:1] == ["batch_size=4"] and "saves nothing" in line for line in lines)


def test_nothing_is_played_where_the_loop_waits_for_something_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = printed(capsys, str(RECORDINGS / "s14_threads.lwrec"), "--what-if")
    assert "No other settings are told" in text.splitlines()[-1]


def test_a_recording_a_file_and_a_server_say_the_same(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = RECORDINGS / "s02_few_workers.lwrec"
    recorded = recording.load(path)
    store = DuckDBStore(data_dir / "runs")
    store.append([*recorded.decoded()])
    store.close()

    def told(which: str) -> Any:
        return json.loads(printed(capsys, which, "--what-if", "--json"))

    (from_recording,) = told(str(path))
    (from_file,) = told(recorded.run_id)
    with ServeProcess(data_dir, "--port", "0") as server:
        server.start()
        (from_server,) = told(recorded.run_id)
        server.stop()
    assert from_server == from_file == from_recording
    assert from_file["knee"] > from_file["today"]["num_workers"]
    assert {option["change"] for option in from_file["options"]} >= {"batch_size=16"}


def test_it_is_of_the_newest_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyze", "train", "--what-if", "--attempt", "1"]) == 2
    assert "--what-if cannot be used with --attempt" in capsys.readouterr().err
