"""The run that the argument RUN means: one of a server, a file of a store, or a recording."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from loaderwatch.cli.flags import is_file
from loaderwatch.core.answers import Param, RunRow, Text
from loaderwatch.core.client import Client, find_server
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.files import NotPrivate
from loaderwatch.server.queries.live_answers import stored_row
from loaderwatch.server.recordings.export import export
from loaderwatch.server.recordings.recording import SUFFIX, Recording, load, unpack
from loaderwatch.server.store.duckdb import DuckDBStore

STORED: Final = ".duckdb"
FILES: Final = (STORED, SUFFIX)
"""Endings of files that hold a run."""


class NoSuchRun(LoaderwatchError):
    """The requested run is unknown here."""


@dataclass(frozen=True, slots=True)
class ServedRun:
    """A run of a running server, which has its file open; ``row`` is as in ``GET /runs``."""

    client: Client
    row: RunRow

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id

    def recording(self, last_s: float | None) -> Recording:
        """Return the run's newest ``last_s`` seconds, or all of it (None)."""
        return unpack(self.client.recording(self.run_id, last_s), Path(self.client.url))


@dataclass(frozen=True, slots=True)
class FiledRun:
    """A run in a file that no server has open; ``row`` is as a server would give it."""

    store: DuckDBStore
    row: RunRow

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id

    def recording(self, last_s: float | None) -> Recording:
        """Return the run's newest ``last_s`` seconds, or all of it (None)."""
        return export(self.store, self.run_id, last_s)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The part of a run that is in an ``.lwrec`` file."""

    recorded: Recording
    file: Path

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.recorded.run_id

    @property
    def title(self) -> Text:
        """The run's name and id and the recording's file, for people."""
        run: dict[str, Param] = {"name": self.recorded.run_name, "run_id": self.recorded.run_id}
        return Text("run-recorded", {**run, "file": self.file.name})

    def recording(self, last_s: float | None) -> Recording:
        """Return the whole recording; ``last_s`` is not used."""
        return self.recorded


RunSource: TypeAlias = ServedRun | FiledRun | RecordedRun


@contextmanager
def open_run(which: str, data_dir: Path | None) -> Iterator[RunSource]:
    """Open the run of a file, of this id, or the newest of this name.

    Raises:
        NoSuchRun: there is no such run or file.
        BadRecording, ServerError, StoreError: the run cannot be read.
    """
    file = Path(which).expanduser()
    if file.suffix == SUFFIX:
        yield RecordedRun(load(file), file)
    elif file.suffix == STORED or is_file(file):
        check_database(file)
        with open_store(file.absolute().parent) as store:
            yield FiledRun(store, pick(rows_of(store), file.stem))
    else:
        with open_runs(data_dir) as runs:
            row = pick(rows_of(runs), which)
            yield ServedRun(runs, row) if isinstance(runs, Client) else FiledRun(runs, row)


@contextmanager
def open_runs(data_dir: Path | None) -> Iterator[Client | DuckDBStore]:
    """Open the server that has the runs' files open, else the files.

    Raises:
        NoSuchRun: no runs are kept there.
        ConfigError: the directory is another user's.
        ServerError, StoreError: the runs cannot be read.
    """
    client = find_server(data_dir)
    if client is not None:
        yield client
        return
    places = DataDir(data_dir or load_settings().data_dir)
    runs_dir = places.runs_dir
    try:
        places.check_own()
    except NotPrivate as error:
        raise ConfigError(f"{error.filename} is not read: {error.strerror}") from None
    if not runs_dir.is_dir():
        raise NoSuchRun(f"no runs are kept in {runs_dir}; name another place with --data-dir")
    with open_store(runs_dir) as store:
        yield store


def rows_of(runs: Client | DuckDBStore) -> list[RunRow]:
    """Return the runs in the form of ``GET /runs``, newest first."""
    if isinstance(runs, Client):
        return runs.runs()
    return [stored_row(run, runs, time.time_ns()) for run in runs.runs()]


def open_store(runs_dir: Path) -> closing[DuckDBStore]:
    """Open a folder of run files for reading."""
    return closing(DuckDBStore(runs_dir, read_only=True))


def check_database(file: Path) -> None:
    """Check by its mark, which follows a checksum, that a file is DuckDB's.

    Raises:
        NoSuchRun: there is no such file, or it is unreadable or something else.
    """
    if not is_file(file):
        raise NoSuchRun(f"there is no file {file}")
    try:
        with file.open("rb") as opened:
            mark = opened.read(12)[8:]
    except OSError as error:
        raise NoSuchRun(f"cannot read {file}: {error.strerror}") from error
    if mark != b"DUCK":
        raise NoSuchRun(
            f"{file} is no recording; name a .lwrec file (loaderwatch export), a run's .duckdb file, or a run"
        )


def pick(rows: list[RunRow], which: str) -> RunRow:
    """Return the run of this id, else the newest of this name.

    Raises:
        NoSuchRun: there is none.
    """
    matching = [row for row in rows if row.run_id == which] or [row for row in rows if row.name == which]
    if matching:
        return matching[0]  # the newest
    close = ", ".join(row.run_id for row in rows[:5])
    raise NoSuchRun(
        f"no run {which!r} here; " + (f"the newest are {close}" if close else "there are none yet")
    )
