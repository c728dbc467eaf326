"""``loaderwatch export``: the newest part of a run as one small file, to show it to somebody else.

``loaderwatch analyze FILE`` reads it. It holds what the page shows: script, arguments, paths, host names and stacks.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import LoaderwatchError

if TYPE_CHECKING:
    from loaderwatch.cli.typing import Subparsers


class CannotWrite(LoaderwatchError):
    """The file cannot be written."""


def prepare_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "export", help="write the newest part of a run to a file", description=__doc__
    )
    parser.add_argument("which", metavar="RUN", help="a run's id, or a run's name (its newest run)")
    parser.add_argument("file", metavar="FILE", type=Path, help="what to write, e.g. stalled.lwrec")
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
    packed = _packed(args.which, args.last, args.data_dir)
    try:
        args.file.write_bytes(packed)
    except OSError as error:
        raise CannotWrite(f"{args.file} cannot be written: {error.strerror or error}") from error
    print(
        f"{args.file}: {len(packed) / 1e3:,.0f} kB; it holds paths, arguments, host names and stacks of the run"
    )
    return 0


def _packed(which: str, last_s: float, data_dir: Path | None) -> bytes:
    from loaderwatch.cli.analyze import NoSuchRun, pick
    from loaderwatch.cli.client import find_server

    client = find_server(data_dir)
    if client is not None:  # it has the files open
        return client.recording(str(pick(client.runs(), which)["run_id"]), last_s)
    import time

    from loaderwatch.server.export import export
    from loaderwatch.server.recording import pack
    from loaderwatch.server.snapshots import stored_row
    from loaderwatch.server.store.duckdb import DuckDBStore

    runs_dir = (data_dir or load_settings().data_dir) / "runs"
    if not runs_dir.is_dir():
        raise NoSuchRun(f"no runs are kept in {runs_dir}; name another place with --data-dir")
    store = DuckDBStore(runs_dir, read_only=True)
    try:
        row = pick([stored_row(each, store, time.time_ns()) for each in store.runs()], which)
        return pack(export(store, str(row["run_id"]), last_s))
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
