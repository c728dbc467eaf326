"""``loaderwatch demo``: a real training run that goes wrong in five ways, with the page open beside it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loaderwatch.cli.typing import Subparsers


def prepare_parser(subparsers: Subparsers) -> None:
    """Add the command. Its options are the demo's own: ``loaderwatch demo --help`` asks the demo."""
    parser = subparsers.add_parser(
        "demo", help="a guided demo on this machine, no GPU needed", description=__doc__, add_help=False
    )
    parser.set_defaults(run=run, takes_rest=True)


def run(args: argparse.Namespace) -> int:
    """Hand over to the demo."""
    try:
        import loaderwatch.demo as demo
    except ModuleNotFoundError as error:
        print(
            f"loaderwatch: the demo needs the module {error.name}; pip install 'loaderwatch[demo]'",
            file=sys.stderr,
        )
        return 1
    code: int = demo.main(args.rest)
    return code
