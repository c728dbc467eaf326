"""A run file on its own."""

from __future__ import annotations

from pathlib import Path

from loaderwatch.core.clock import wall_ns
from loaderwatch.server.store.runfile import RunFile
from loaderwatch.server.summary import state_now


def test_a_run_being_born_is_neither_lost_nor_old(tmp_path: Path) -> None:
    """Between the making of the file and its first commit it is listed already; retention looks at its age."""
    before = wall_ns()
    file = RunFile(tmp_path / "new.duckdb", "new")
    try:
        run = file.stored_run()
    finally:
        file.close()
    assert before <= run.received_ns <= wall_ns()
    assert state_now(run, wall_ns()) == "live"
