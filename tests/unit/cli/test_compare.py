"""``loaderwatch compare`` on files that no server has open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loaderwatch.cli import main
from loaderwatch.server.recordings.export import export
from loaderwatch.server.recordings.recording import pack
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.two_runs import paced


@pytest.fixture
def runs(data_dir: Path) -> Path:
    """A run that waits half its time, one with more workers that does not, and a recording of the latter."""
    store = DuckDBStore(data_dir / "runs")
    store.append([paced("run-a", num_workers=2)])
    store.append([paced("run-b", iteration_s=0.06, wait_ratio=0.08, start_s=0.5, num_workers=8)])
    (data_dir / "b.lwrec").write_bytes(pack(export(store, "run-b", 3600.0)))
    store.close()
    return data_dir


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = main(["compare", *argv])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def test_it_says_what_changed(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = printed(capsys, "run-a", "run-b", "--fail-if", "data_wait_ratio > 0.1")
    assert code == 0
    assert out.splitlines()[0].startswith("A  train.py (run-a), 1 rank, finished, 1200 steps, 108 s compared")
    for said in (
        "B is 6",
        "train_loader num_workers: 2 → 8",
        "more than noise: better",
        "Data wait  ",
        "-42",
    ):
        assert said in out, said


def test_it_fails_where_a_condition_holds(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conditions = ("--fail-if", "data_wait_ratio > 0.1", "--fail-if", "steps_per_s.change < -5%")
    code, out, _ = printed(capsys, "run-b", "run-a", *conditions)
    assert code == 1
    assert "Failed: data_wait_ratio > 0.1: data_wait_ratio is 0." in out
    assert "Failed: steps_per_s.change < -5%: steps_per_s.change is -0." in out
    assert printed(capsys, "run-a", "run-b", *conditions)[0] == 0


def test_a_recording_and_a_file_are_runs_too(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = json.loads(printed(capsys, "run-a", "run-b", "--json")[1])
    mixed = json.loads(
        printed(capsys, str(runs / "runs" / "run-a.duckdb"), str(runs / "b.lwrec"), "--json")[1]
    )
    assert mixed["judgement"] == stored["judgement"] == "better"
    speeds = [compared["measures"][0]["b"]["mean"] for compared in (stored, mixed)]
    assert speeds[0] == pytest.approx(speeds[1], rel=0.05)
    assert mixed["settings"] == stored["settings"]


def test_what_cannot_be_compared_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = printed(capsys, "run-a", "run-b", "--fail-if", "speed > 1")
    assert code == 2
    assert "names no measure; use one of steps_per_s" in error
    code, _, error = printed(capsys, "run-a", "nope")
    assert code == 1
    assert "no run 'nope' here" in error
