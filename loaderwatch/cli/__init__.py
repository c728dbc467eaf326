"""The command line: one file per command, each with ``prepare_parser`` and ``run``.

Exit codes: 0 ok, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from loaderwatch import __version__
from loaderwatch.cli import analyze, demo, doctor, export, run, runs, serve, stop, token
from loaderwatch.core.errors import ConfigError, LoaderwatchError

_COMMANDS = (serve, stop, demo, run, runs, analyze, export, doctor, token)


def build_parser() -> argparse.ArgumentParser:
    """The parser of every command; the chosen command's ``run`` is in ``args.run``."""
    parser = argparse.ArgumentParser(
        prog="loaderwatch", description="Live diagnosis of PyTorch input-pipeline stalls."
    )
    parser.add_argument("--version", action="version", version=f"loaderwatch {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.prepare_parser(subparsers)
    for described in subparsers.choices.values():
        if described.description:  # a docstring, with marks that a terminal does not draw
            described.description = described.description.replace("``", "")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = build_parser()
    args, rest = parser.parse_known_args(argv)
    if rest and not getattr(args, "takes_rest", False):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    args.rest = rest
    try:
        code: int = args.run(args)
    except ConfigError as error:
        print(f"loaderwatch: {error}", file=sys.stderr)
        return 2
    except LoaderwatchError as error:
        print(f"loaderwatch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        sys.stderr.close()
        return 1
    return code
