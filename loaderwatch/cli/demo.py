"""``loaderwatch demo``: a real training run that goes wrong in six ways, with the page open beside it."""

from __future__ import annotations

import argparse

from loaderwatch.cli.flags import path, port
from loaderwatch.cli.parser import CommandParser
from loaderwatch.core.environment_variables import DEFAULT_PORT
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.demo.acts import ACTS

try:
    from loaderwatch.demo import tour
except ModuleNotFoundError as error:
    raise LoaderwatchError(
        f"the demo needs the module {error.name}; pip install 'loaderwatch[demo]'"
    ) from error


def prepare_parser(parser: CommandParser) -> None:
    """Add the command's arguments to its parser."""
    parser.params = {"default_port": DEFAULT_PORT, "acts": ", ".join(act.key for act in ACTS)}
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--acts", nargs="+", metavar="ACT")
    parser.add_argument("--port", type=port)
    parser.add_argument("--data-dir", type=path, metavar="DIR")
    parser.add_argument("--open", action="store_true")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--exit", action="store_false", dest="keep")


def run(args: argparse.Namespace) -> int:
    """Play the demo and return its exit code."""
    return tour.run(args)
