"""``loaderwatch import``: brings recorded runs into the running server's store or into the data directory.

It takes the .lwrec files that ``loaderwatch export`` and the page's download write, and the .duckdb files
that a server without ``--store`` keeps. An existing run is not changed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from loaderwatch.cli.flags import add_data_dir, is_file, is_folder
from loaderwatch.cli.recordings.destination import DataDirectory, Destination, RunningServer
from loaderwatch.cli.run_source import FILES, STORED, NoSuchRun, check_database, open_store
from loaderwatch.core.client import find_server
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.files import NotPrivate
from loaderwatch.core.printable import one_line
from loaderwatch.server.recordings.outgoing_run import MovedRun, of_recording, of_store
from loaderwatch.server.recordings.recording import load
from loaderwatch.server.store.protocol import RunExists, UnknownRun
from loaderwatch.texts import in_own_language

_MAGIC: Final = "*?["


class Differs(LoaderwatchError):
    """A run with this id already exists and differs from the one to import."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument("files", metavar="FILE", nargs="+")
    add_data_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Import the run of each file; return the exit code: 1 if an import failed.

    Raises:
        ConfigError: there is no such file.
        ServerError, StoreError: the place for the runs is unusable.
    """
    files = [file for name in args.files for file in _named(name)]
    failed = 0
    with _destination(args.data_dir) as place:
        for number, file in enumerate(files, 1):
            try:
                result_line = _bring(file, place)
            except LoaderwatchError as error:
                failed += 1
                why = one_line(str(error))
                print(in_own_language("file-not-imported", file=str(file), why=why), file=sys.stderr)
                continue
            print(f"[{number}/{len(files)}] {result_line}", flush=True)
    return 1 if failed else 0


def _named(name: str) -> list[Path]:
    """Return the files that an argument names.

    Raises:
        ConfigError: there are none.
    """
    path = Path(name).expanduser()
    if is_file(path):
        return [path]
    if is_folder(path):
        matching = [file for file in path.iterdir() if file.suffix in FILES and is_file(file)]
    elif any(sign in name for sign in _MAGIC):
        anchor = path.absolute().anchor
        pattern = str(path.absolute().relative_to(anchor))
        matching = [file for file in Path(anchor).glob(pattern) if is_file(file)]
    else:
        raise ConfigError(f"there is no file or folder {name}")
    if not matching:
        raise ConfigError(f"there are no {' or '.join(FILES)} files at {name}")
    return sorted(matching)


@contextmanager
def _destination(data_dir: Path | None) -> Iterator[Destination]:
    client = find_server(data_dir, "owner")
    if client is not None:
        yield RunningServer(client)
        return
    places = DataDir(data_dir or load_settings().data_dir)
    try:
        places.check_own()
    except NotPrivate as error:
        raise ConfigError(f"{error.filename} is not written to: {error.strerror}") from None
    with closing(DataDirectory(places.runs_dir)) as place:
        yield place


def _bring(file: Path, place: Destination) -> str:
    """Import the run of a file and return a line about it.

    Raises:
        LoaderwatchError: the file is unreadable or not storable, or its run exists and differs.
    """
    if place.holds_file(file):
        return in_own_language("file-lies-there", run=file.stem)
    with _opened(file) as moved:
        known = place.fingerprint(moved.run_id)
        if known is not None:
            if known == moved.fingerprint():
                return in_own_language("run-is-there", run=_title(moved))
            raise Differs(
                f"run {moved.run_id} is there already and differs; it stays as it is."
                " Delete it first to have this one"
            )
        arrival = place.arrive(moved.run_id)
        try:
            for part in moved.parts():
                arrival.add(part)
            arrival.finish(moved.rest)
        except RunExists as error:
            arrival.give_up()
            raise Differs(f"{error}: it came another way meanwhile") from None
        except BaseException:
            arrival.give_up()
            raise
    seconds = (moved.rest.newest_ns - moved.rest.first_ns) / 1e9
    return in_own_language("run-imported", run=_title(moved), seconds_s=seconds)


def _title(moved: MovedRun) -> str:
    return one_line(f"{moved.name} ({moved.run_id})")


@contextmanager
def _opened(file: Path) -> Iterator[MovedRun]:
    if file.suffix != STORED:
        yield of_recording(load(file), file)
        return
    check_database(file)
    with open_store(file.absolute().parent) as store:
        try:
            yield of_store(store, file.stem)
        except UnknownRun:
            raise NoSuchRun(f"{file} is no run") from None
