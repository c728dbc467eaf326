"""``loaderwatch token rotate``: new tokens for the server of a data directory."""

from __future__ import annotations

import argparse
import time

from loaderwatch.cli.flags import add_data_dir
from loaderwatch.core.client import find_server
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.server.access.tokens import rotate_tokens

_WITHIN_S = 10.0


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's one action and its arguments to the parser."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    rotate = actions.add_parser(
        "rotate",
        help="write new tokens; a server that runs takes them up and refuses the old ones at once",
        description="Write new tokens. A server that runs takes them up and refuses the old ones: every browser has to be"
        " signed in anew. Training jobs on this machine go on by themselves; others need the new agent token.",
    )
    add_data_dir(rotate)


def run(args: argparse.Namespace) -> int:
    """Write new tokens, wait until the server refuses the old ones, and return the exit code.

    Raises:
        LoaderwatchError: the tokens cannot be written, or the server still accepts the old ones.
    """
    data_dir = args.data_dir or load_settings().data_dir
    path = DataDir(data_dir).token_path
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
