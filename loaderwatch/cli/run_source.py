"""The run that RUN on the command line means.

It is one that a server has, one of the files of a store, or a recording.
"""

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
    """The run that was asked for is not known here."""


@dataclass(frozen=True, slots=True)
class ServedRun:
    """A run of a server that is up and has its file open; ``row`` is as ``GET /runs`` gives it."""

    client: Client
    row: RunRow

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.row.run_id

    def recording(self, last_s: float | None) -> Recording:
        """Return the newest part of the run, ``last_s`` seconds long, or all of it (None)."""
        return unpack(self.client.recording(self.run_id, last_s), Path(self.client.url))


@dataclass(frozen=True, slots=True)
class FiledRun:
    """A run in a file that no server has open; ``row`` is as a server would give it."""

    store: DuckDBStore
    row: RunRow

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.row.run_id

    def recording(self, last_s: float | None) -> Recording:
        """Return the newest part of the run, ``last_s`` seconds long, or all of it (None)."""
        return export(self.store, self.run_id, last_s)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The part of a run that an ``.lwrec`` file holds."""

    recorded: Recording
    file: Path

    @property
    def title(self) -> Text:
        """Return the run's name and id, and the file it is recorded in, as people read it."""
        run: dict[str, Param] = {"name": self.recorded.run_name, "run_id": self.recorded.run_id}
        return Text("run-recorded", {**run, "file": self.file.name})

    def recording(self, last_s: float | None) -> Recording:
        """Return all that is recorded, however long that is; ``last_s`` is not used."""
        return self.recorded


RunSource: TypeAlias = ServedRun | FiledRun | RecordedRun


@contextmanager
def open_run(which: str, data_dir: Path | None) -> Iterator[RunSource]:
    """Open the run of a file, or of this id, or the newest of this name.

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
        NoSuchRun: nobody has kept any runs there.
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
    """Return the runs as ``GET /runs`` gives them, newest first."""
    if isinstance(runs, Client):
        return runs.runs()
    return [stored_row(run, runs, time.time_ns()) for run in runs.runs()]


def open_store(runs_dir: Path) -> closing[DuckDBStore]:
    """Open the files of runs in a folder to read them."""
    return closing(DuckDBStore(runs_dir, read_only=True))


def check_database(file: Path) -> None:
    """Check by its mark that a file is DuckDB's; the mark comes after a checksum.

    Raises:
        NoSuchRun: there is no such file, or it cannot be read, or is something else.
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
    found = [row for row in rows if row.run_id == which] or [row for row in rows if row.name == which]
    if found:
        return found[0]  # the newest
    close = ", ".join(row.run_id for row in rows[:5])
    raise NoSuchRun(
        f"no run {which!r} here; " + (f"the newest are {close}" if close else "there are none yet")
    )
