"""``loaderwatch demo``: a real training run that goes wrong in six ways, with the page open beside it."""

from __future__ import annotations

import argparse

from loaderwatch.cli.flags import path, port
from loaderwatch.core.environment_variables import DEFAULT_PORT
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.demo.acts import ACTS

try:
    from loaderwatch.demo import tour
except ModuleNotFoundError as error:
    raise LoaderwatchError(
        f"the demo needs the module {error.name}; pip install 'loaderwatch[demo]'"
    ) from error

_ABOUT = """Train a small CNN on two ranks, let it go wrong in six ways, and watch the page say why. Takes about
three minutes; no GPU needed."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.description = _ABOUT
    keys = ", ".join(act.key for act in ACTS)
    parser.add_argument("--fast", action="store_true", help="shorter acts, about a minute")
    parser.add_argument("--acts", nargs="+", metavar="ACT", help=f"only these: {keys}")
    parser.add_argument("--port", type=port, help=f"the page's port (default {DEFAULT_PORT}, or a free one)")
    parser.add_argument(
        "--data-dir",
        type=path,
        metavar="DIR",
        help="keep images, logs and the run there (default: LOADERWATCH_DIR/demo, else a folder that is removed at the end)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument(
        "--keep",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="leave the page up after the training until Ctrl-C",
    )
    parser.add_argument("--exit", action="store_false", dest="keep", help="the same as --no-keep")


def run(args: argparse.Namespace) -> int:
    """Play the demo and return its exit code."""
    return tour.run(args)
