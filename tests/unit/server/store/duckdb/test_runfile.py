"""A run file on its own."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loaderwatch.core.clock import wall_ns
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.store.duckdb import files, runfile
from loaderwatch.server.store.duckdb.files import RunFiles
from loaderwatch.server.store.duckdb.runfile import RunFile
from tests.fakes.runs import T0, envelope, steps


def test_a_run_being_born_is_neither_lost_nor_old(tmp_path: Path) -> None:
    """Before its first commit a new file is already listed, and retention looks at its age."""
    before = wall_ns()
    file = RunFile(tmp_path / "new.duckdb", "new")
    try:
        run = file.stored_run()
    finally:
        file.close()
    assert before <= run.received_ns <= wall_ns()
    assert state_now(run, wall_ns()) == "live"


MEMORY = "SELECT sum(memory_usage_bytes)::BIGINT FROM duckdb_memory()"
SUMS = "SELECT count(*), sum(wait_ns)::BIGINT FROM steps"
LIMIT = "SELECT current_setting('memory_limit')"


def test_memory_that_charts_no_longer_need_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB keeps written and read data in memory up to its limit: 100 MB for an hour of 64 ranks."""
    monkeypatch.setattr(runfile, "KEPT_MEMORY", "4MB")
    monkeypatch.setattr(files, "GIVE_BACK_EVERY_S", 0.0)
    times = T0 + np.arange(400_000)
    waits, durations = np.random.default_rng(1).integers(0, 2**40, (2, times.size))
    runs = RunFiles(tmp_path, read_only=False)

    def ask(question: str) -> list[tuple[Any, ...]]:
        with runs.open("run-1") as file, file.snapshot() as connection:
            return connection.execute(question).fetchall()

    try:
        with runs.open("run-1", create=True) as file:
            file.append([envelope(1, tables={"steps": steps(0, times, waits, durations)})])
            before = ask(SUMS)
            full, limit = ask(MEMORY), ask(LIMIT)
            assert full[0][0] > 6e6
            runs.give_back()  # somebody has it open: a query of theirs may need the memory
            assert ask(MEMORY) == full
            with monkeypatch.context() as patch:
                patch.setattr(runfile, "_LITTLE_LOG", 0)
                assert not file.give_back()  # rows that are not in the file yet would go to a temporary one
            assert ask(MEMORY) == full
        runs.give_back()
        assert ask(MEMORY)[0][0] <= 4e6
        assert (ask(SUMS), ask(LIMIT)) == (before, limit)
    finally:
        runs.close()
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".tmp", ".new")] == []


def test_how_large_a_run_is_can_be_asked_while_a_checkpoint_removes_its_log(tmp_path: Path) -> None:
    log, over = tmp_path / "run-1.duckdb.wal", threading.Event()

    def comes_and_goes() -> None:
        while not over.is_set():
            log.write_bytes(b"some rows")
            log.unlink()

    thread = threading.Thread(target=comes_and_goes)
    thread.start()
    try:
        assert {runfile._size(log) for _ in range(20_000)} <= {0, 9}
    finally:
        over.set()
        thread.join()
