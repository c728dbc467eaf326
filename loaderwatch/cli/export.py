"""``loaderwatch export``: the newest part of a run as one small file, to show it to somebody else.

``loaderwatch analyze FILE`` reads it. It holds what the page shows: script, arguments, paths, host names and stacks; with
``--redact`` these are replaced, and what stays are numbers, line numbers, and names of functions and classes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import LoaderwatchError

if TYPE_CHECKING:
    from loaderwatch.cli.typing import Subparsers
    from loaderwatch.server.recordings.recording import Recording


class CannotWrite(LoaderwatchError):
    """The file cannot be written."""


def prepare_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export", help="write the newest part of a run to a file", description=__doc__
    )
    parser.add_argument(
        "which",
        metavar="RUN",
        help="a run's id, a run's name (its newest run), a .duckdb file or an .lwrec file",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="what to write, e.g. stalled.lwrec")
    parser.add_argument(
        "--redact",
        action="store_true",
        help="replace paths, arguments, messages, and the names of hosts and of the run",
    )
    parser.add_argument(
        "--last",
        type=_seconds,
        default=600.0,
        metavar="SECONDS",
        help="how much of its end (default 600; of a run that a server serves, 3600 at most)",
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="where runs are kept (default LOADERWATCH_DIR)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the file."""
    from loaderwatch.server.recordings.recording import pack, redacted

    recording = recording_of(args.which, args.last, args.data_dir)
    packed = pack(redacted(recording) if args.redact else recording)
    try:
        args.file.write_bytes(packed)
    except OSError as error:
        raise CannotWrite(f"{args.file} cannot be written: {error.strerror or error}") from error
    holds = (
        "paths, arguments, messages and names of hosts are replaced; names of functions, classes, loaders and phases are not"
        if args.redact
        else "it holds paths, arguments, host names and stacks of the run; --redact replaces them"
    )
    print(f"{args.file}: {len(packed) / 1e3:,.0f} kB; {holds}")
    return 0


def recording_of(which: str, last_s: float, data_dir: Path | None) -> Recording:
    """The newest part of a run: of an ``.lwrec`` file (all of it), of a ``.duckdb`` file, or by its id or name.

    Raises:
        NoSuchRun, BadRecording, ServerError, StoreError
    """
    import time

    from loaderwatch.cli.analyze import NoSuchRun, pick
    from loaderwatch.core.client import find_server
    from loaderwatch.server.http.live_answers import stored_row
    from loaderwatch.server.recordings.export import export
    from loaderwatch.server.recordings.recording import load, unpack
    from loaderwatch.server.store.duckdb import DuckDBStore

    file = Path(which).expanduser()
    if which.endswith(".lwrec"):
        return load(file)
    if which.endswith(".duckdb"):
        if not file.is_file():
            raise NoSuchRun(f"there is no file {file}")
        runs_dir, which = file.absolute().parent, file.stem
    else:
        client = find_server(data_dir)
        if client is not None:  # it has the files open
            return unpack(
                client.recording(str(pick(client.runs(), which)["run_id"]), last_s), Path(client.url)
            )
        runs_dir = (data_dir or load_settings().data_dir) / "runs"
        if not runs_dir.is_dir():
            raise NoSuchRun(f"no runs are kept in {runs_dir}; name another place with --data-dir")
    store = DuckDBStore(runs_dir, read_only=True)
    try:
        row = pick([stored_row(each, store, time.time_ns()) for each in store.runs()], which)
        return export(store, str(row["run_id"]), last_s)
    finally:
        store.close()


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use a number of seconds above 0")
    return value
