"""``loaderwatch token rotate``: new tokens for the server of a data directory."""

from __future__ import annotations

import argparse
import time

from loaderwatch.cli.flags import add_data_dir
from loaderwatch.core.client import find_server
from loaderwatch.core.config import DataDir, load_settings
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.server.access.tokens import rotate_tokens
from loaderwatch.texts import in_own_language

_WITHIN_S = 10.0


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's only action and its arguments to the parser."""
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    rotate = actions.add_parser("rotate", help="")
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
    print(in_own_language("tokens-written", file=str(path)))
    if server is None:
        print(in_own_language("tokens-for-next-server"))
        return 0
    deadline = time.monotonic() + _WITHIN_S
    while server.knows():
        if time.monotonic() > deadline:
            raise LoaderwatchError(
                f"the server at {server.url} still lets the old tokens in; end it and start it again"
                " (one with --no-auth lets everybody in)"
            )
        time.sleep(0.1)
    print(in_own_language("tokens-taken", url=server.url))
    return 0
