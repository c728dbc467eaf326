"""The command line: a table of its commands, each a module with ``prepare_parser`` and ``run``.

Only the chosen command's module is imported. Exit codes: 0 ok, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from loaderwatch import __version__
from loaderwatch.cli.parser import CommandParser
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.low_priority_start import import_gently
from loaderwatch.core.printable import Printable


class Command(NamedTuple):
    """A command: its name and its module. Its help is the message ``command-`` plus its name."""

    name: str
    module: str


COMMANDS: Final = (
    Command("serve", "loaderwatch.cli.serve"),
    Command("stop", "loaderwatch.cli.stop"),
    Command("demo", "loaderwatch.cli.demo"),
    Command("run", "loaderwatch.cli.run"),
    Command("runs", "loaderwatch.cli.runs"),
    Command("analyze", "loaderwatch.cli.analyze"),
    Command("compare", "loaderwatch.cli.compare"),
    Command("stacks", "loaderwatch.cli.stacks"),
    Command("export", "loaderwatch.cli.recordings.export"),
    Command("import", "loaderwatch.cli.recordings.imports"),
    Command("doctor", "loaderwatch.cli.doctor"),
    Command("tune", "loaderwatch.cli.tune"),
    Command("notify", "loaderwatch.cli.notify"),
    Command("config", "loaderwatch.cli.config"),
    Command("rules", "loaderwatch.cli.rules"),
    Command("token", "loaderwatch.cli.token"),
)


STARTED_BY: Final = "--started-by"
"""The option of ``serve`` that names the program that started it, usually beside a training."""
_SERVER_PARTS: Final = ("numpy", "fastapi", "duckdb", "apprise", "loaderwatch.detect.detectors")
"""Parts of a server's imports; each part is imported as a whole at low priority, however long it takes."""
_GENTLY_S: Final = 15.0
"""How long a server starts at low priority: after 30 s a streamer reports that it does not answer."""


def build_parser(argv: Sequence[str]) -> CommandParser:
    """Return the parser for a command line; ``args.run`` will be the ``run`` of the chosen command.

    Raises:
        LoaderwatchError: the command needs something that is not installed.
    """
    # no option before the command takes a value
    chosen = next((word for word in argv if not word.startswith("-")), None)
    parser = CommandParser(prog="loaderwatch")
    parser.add_argument("--version", action="version", version=f"loaderwatch {__version__}", help=None)
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, module in COMMANDS:
        described = subparsers.add_parser(name, help="")
        if name == chosen:
            if STARTED_BY in argv:
                import_gently(*_SERVER_PARTS, module, within_s=_GENTLY_S)
            command = importlib.import_module(module)
            command.prepare_parser(described)
            described.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. Its output moves no cursor of a terminal."""
    argv = sys.argv[1:] if argv is None else argv
    stderr = sys.stderr
    out, err = Printable(sys.stdout), Printable(stderr)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return _run(argv)
    except BrokenPipeError:  # the reader of our output is gone, e.g. `| head`
        stderr.close()
        return 1
    finally:
        for stream in (out, err):
            with contextlib.suppress(OSError, ValueError):  # its reader is gone, or it was closed
                stream.flush()


def _run(argv: Sequence[str]) -> int:
    try:
        args = build_parser(argv).parse_args(argv)
        code: int = args.run(args)
    except ConfigError as error:
        print(f"loaderwatch: {error}", file=sys.stderr)
        return 2
    except LoaderwatchError as error:
        print(f"loaderwatch: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code
