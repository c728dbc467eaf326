"""``loaderwatch stop``: ends the server of a data directory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from loaderwatch.cli.flags import add_data_dir
from loaderwatch.core.client import ServerError, find_own_server
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.lock import is_held
from loaderwatch.core.printable import one_line
from loaderwatch.texts import in_own_language

_GONE_WITHIN_S: Final = 60.0
_REFUSED: Final = 409


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_data_dir(parser)
    parser.add_argument("--force", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Ask the server that proves itself to end, wait for its end, and return the exit code.

    No process is signalled, so a wrong one cannot be hit.

    Raises:
        LoaderwatchError: the server does not answer, refuses, or has not ended in time.
    """
    data_dir = args.data_dir or load_settings().data_dir
    lock = DataDir(data_dir).lock_path
    server = find_own_server(data_dir, "owner")
    if server is None:
        if is_held(lock):
            raise LoaderwatchError(
                f"the server of {data_dir} does not answer: it is starting or ending this moment, or stands"
                f" still; try again, or end process {_holder(lock)} yourself"
            )
        print(in_own_language("no-server-to-stop", data_dir=str(data_dir)))
        return 0
    try:
        ended = server.stop(force=args.force)
    except ServerError as error:
        if error.status != _REFUSED:
            raise
        raise LoaderwatchError(
            f"the server at {server.url} goes on: {one_line(error.reason)}. A run that is reporting would"
            " start another server; `loaderwatch stop --force` ends this one all the same"
        ) from None
    except OSError:
        ended = None  # it left at this moment
    give_up_at = time.monotonic() + _GONE_WITHIN_S
    while is_held(lock):
        if time.monotonic() > give_up_at:
            raise LoaderwatchError(
                f"the server at {server.url} was told to end and has not within {_GONE_WITHIN_S:g} s;"
                f" end process {_holder(lock)} yourself"
            )
        time.sleep(0.05)
    pid = ended.pid if ended else None
    print(in_own_language("server-has-ended", url=server.url, pid=pid, data_dir=str(data_dir)))
    if ended and ended.reporting:
        print(in_own_language("another-server-starts", runs=one_line(", ".join(ended.reporting))))
    return 0


def _holder(lock: Path) -> str:
    """Return the pid that the lock's holder wrote into the lock, else words in its place."""
    try:
        pid = lock.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return "of that server"
    return pid if pid.isdecimal() else "of that server"
