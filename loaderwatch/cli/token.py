"""``loaderwatch token rotate``: new tokens for the server of a data directory."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from loaderwatch.core.config import load_settings
from loaderwatch.core.errors import LoaderwatchError

if TYPE_CHECKING:
    from loaderwatch.cli.typing import Subparsers

_WITHIN_S = 10.0


def prepare_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = subparsers.add_parser("token", help="the tokens of a server", description=__doc__)
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    rotate = actions.add_parser(
        "rotate",
        help="write new tokens; a server that runs takes them up and refuses the old ones at once",
        description="Write new tokens. A server that runs takes them up and refuses the old ones: every browser has to be"
        " signed in anew. Training jobs on this machine go on by themselves; others need the new agent token.",
    )
    rotate.add_argument(
        "--data-dir",
        type=Path,
        default=None,
        metavar="DIR",
        help="where runs are kept (default LOADERWATCH_DIR)",
    )
    rotate.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Rotate, and wait until the old tokens open nothing."""
    from loaderwatch.core.client import find_server
    from loaderwatch.server.access.tokens import rotate_tokens

    data_dir = (args.data_dir or load_settings().data_dir).expanduser().absolute()
    path = data_dir / "token.json"
    server = find_server(data_dir)
    try:
        rotate_tokens(path)
    except OSError as error:
        raise LoaderwatchError(f"cannot write {path}: {error.strerror}") from error
    print(f"new tokens are in {path}")
    if server is None:
        print("no server runs here now; the next one takes them")
        return 0
    deadline = time.monotonic() + _WITHIN_S
    while server.knows():
        if time.monotonic() > deadline:
            raise LoaderwatchError(
                f"the server at {server.url} still lets the old tokens in; end it and start it again"
                " (one with --no-auth lets everybody in)"
            )
        time.sleep(0.1)
    print(
        f"the server at {server.url} refuses the old ones; trainers on other machines need the new agent token"
    )
    return 0
