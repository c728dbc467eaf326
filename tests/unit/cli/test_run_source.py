"""What RUN means: the same run from any source."""

from __future__ import annotations

from pathlib import Path

import pytest

from loaderwatch.cli.run_source import (
    FiledRun,
    NoSuchRun,
    RecordedRun,
    ServedRun,
    open_run,
    open_runs,
    rows_of,
)
from loaderwatch.server.recordings.recording import pack
from loaderwatch.server.store.duckdb import DuckDBStore
from loaderwatch.texts import say
from tests.fakes.runs import SECOND, T0, envelope, steps
from tests.fakes.serving import serving


@pytest.fixture
def kept(data_dir: Path) -> Path:
    """A data directory with two runs of one name."""
    store = DuckDBStore(data_dir / "runs")
    for run_id, began_s in (("older", 1), ("newer", 100)):
        times = [T0 + (began_s - 1) * SECOND]
        tables = {"steps": steps(0, times, SECOND // 10, SECOND // 10)}
        store.append([envelope(began_s, run_id=run_id, stream=f"host-{run_id}", tables=tables)])
    store.close()
    return data_dir


@pytest.mark.parametrize(
    ("which", "run_id"),
    [("older", "older"), ("newer", "newer"), ("train.py", "newer"), ("runs/older.duckdb", "older")],
)
def test_a_run_is_found_by_id_name_and_file(kept: Path, which: str, run_id: str) -> None:
    named = str(kept / which) if which.endswith(".duckdb") else which
    with open_run(named, kept) as source:
        assert isinstance(source, FiledRun)
        assert source.run_id == run_id
        assert source.recording(600.0).run_id == run_id


def test_a_recording_is_what_its_file_holds(kept: Path, tmp_path: Path) -> None:
    with open_run("older", kept) as source:
        recorded = source.recording(600.0)
    file = tmp_path / "older.lwrec"
    file.write_bytes(pack(recorded))
    with open_run(str(file), None) as source:
        assert isinstance(source, RecordedRun)
        assert source.recording(1.0) == recorded
        assert say(source.title) == "train.py (older), recorded in older.lwrec"


def test_the_server_is_asked_where_there_is_one(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server has the files open. LOADERWATCH_SERVER names it, unless a directory is given."""
    with serving(data_dir / "served") as access:
        access.send(envelope(1))
        monkeypatch.setenv("LOADERWATCH_SERVER", access.url)
        monkeypatch.setenv("LOADERWATCH_TOKEN", access.viewer)
        with open_run("train.py", None) as source:
            assert isinstance(source, ServedRun)
            assert source.run_id == "run-1"
            assert source.recording(600.0).run_id == "run-1"
            assert source.client.audit("run-1") == []
        with (
            pytest.raises(NoSuchRun, match="no run 'nope' here; the newest are run-1"),
            open_run("nope", None),
        ):
            pass
        with pytest.raises(NoSuchRun, match="no runs are kept in"), open_runs(data_dir / "other"):
            pass


def test_what_is_no_run_is_named(kept: Path, tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database")
    for which, said in (
        ("nope", "no run 'nope' here; the newest are newer, older"),
        ("nope.duckdb", "there is no file nope.duckdb"),
        (str(text), f"{text} is no recording"),
    ):
        with pytest.raises(NoSuchRun, match=said), open_run(which, kept):
            pass
    with open_runs(kept) as runs:
        assert [row.run_id for row in rows_of(runs)] == ["newer", "older"]
