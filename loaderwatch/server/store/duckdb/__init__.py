"""The store on DuckDB: one file per run. Retention deletes files; people may query them with DuckDB."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

from loaderwatch.server.store.deadline import Deadline, Stopped
from loaderwatch.server.store.duckdb.files import FileArrival, RunFiles
from loaderwatch.server.store.duckdb.runfile import RunFile
from loaderwatch.server.store.protocol import Behind, StoredRun, StoreError, UnknownRun
from loaderwatch.server.store.sql.open_run import OpenRun
from loaderwatch.server.store.sql.rollup import LONGEST_S, PASS_S, REST
from loaderwatch.server.store.sql.snapshot import Snapshot
from loaderwatch.server.store.sql.store import SqlStore

_log: Final = logging.getLogger(__name__)


class DuckDBStore(SqlStore):
    """A store with runs in ``runs_dir/<run_id>.duckdb``. ``store.protocol.Store`` describes the methods."""

    commit_interval_s = 0.1
    shared = False

    def __init__(self, runs_dir: Path, *, read_only: bool = False) -> None:
        """Open the store. ``read_only`` changes and renames no file, for use without a running server."""
        self._files = RunFiles(runs_dir, read_only=read_only)
        self._rolled_last = ""  # the run whose rollups were updated last
        self._rests_until_s = 0.0  # monotonic: rollups rest until then

    @contextmanager
    def _reading(self, run_id: str) -> Iterator[tuple[Snapshot, OpenRun]]:
        with self._files.open(run_id) as file:
            try:
                with file.snapshot() as snapshot:
                    yield snapshot, file
            except duckdb.Error as error:
                raise StoreError(f"{file.path} could not be read: {error}") from error

    def check(self) -> None:
        """Do nothing: files always answer."""

    # -- writing

    @contextmanager
    def _writing(self, run_id: str, *, create: bool = False) -> Iterator[OpenRun]:
        with self._files.open(run_id, create=create) as file:
            try:
                yield file
            except Behind:
                raise
            except BaseException as error:
                self._files.forget(file)  # the object may know more than is stored
                if isinstance(error, duckdb.Error):
                    raise StoreError(f"{file.path} could not be written: {error}") from error
                raise

    def arrive(self, run_id: str) -> FileArrival:
        """Begin to import a run."""
        return FileArrival(self._files, run_id)

    def tidy(self) -> None:
        """Do the housekeeping about once a second: update rollups and cards, close idle files."""
        began_s = time.monotonic()
        if began_s >= self._rests_until_s:
            self._roll_changed(began_s)
        self._files.close_idle()
        self._files.give_back()

    def _roll_changed(self, began_s: float) -> None:
        """Update rollups and cards of runs in turns, as long as the pass has time."""
        longest = Deadline(LONGEST_S, "summing this run up takes too long", begin_within_s=PASS_S)
        changed = self._files.changed()
        first = changed.index(self._rolled_last) + 1 if self._rolled_last in changed else 0
        for run_id in changed[first:] + changed[:first]:
            self._rolled_last = run_id
            try:
                with self._files.open(run_id) as file, longest.holds():
                    self._roll(file)
            except Stopped as error:
                self._rests_until_s = time.monotonic() + REST * (time.monotonic() - began_s)
                _log.warning("run %s: %s; it is tried again with less at once", run_id, error)
            except (StoreError, UnknownRun) as error:  # go on with the other runs
                _log.error("housekeeping of run %s: %s", run_id, error)
            if not longest.may_begin:
                return

    def _roll(self, file: RunFile) -> None:
        try:
            file.roll()
        except duckdb.Error as error:
            self._files.forget(file)
            raise StoreError(f"{file.path}: rollups failed: {error}") from error
        self._files.refresh_card(file)

    def delete(self, run_id: str) -> None:
        """Remove a run and its files."""
        self._files.delete(run_id)

    def close(self) -> None:
        """Flush and close every file."""
        self._files.close()

    # -- reading

    def stored_seq(self, run_id: str, stream: str) -> int:
        """Return the highest sequence number stored for a stream; 0 if there is none, or no such run."""
        try:
            with self._files.open(run_id) as file:
                return file.stored_seq(stream)
        except UnknownRun:
            return 0

    def runs(self) -> list[StoredRun]:
        """Return every run, newest first."""
        stored_runs = []
        for run_id in self._files.run_ids():
            try:
                stored_runs.append(self._files.run(run_id))
            except UnknownRun:
                continue  # deleted or set aside meanwhile
            except StoreError as error:
                _log.warning("run %s is left out of the list: %s", run_id, error)
        return sorted(stored_runs, key=lambda run: run.started_ns, reverse=True)

    def run(self, run_id: str) -> StoredRun:
        """Return what is known about one run."""
        return self._files.run(run_id)
