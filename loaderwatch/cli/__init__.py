"""The command line: a table of its commands, each a module with ``prepare_parser`` and ``run``.

Only the module of the command that is chosen is imported. Exit codes: 0 ok, 1 failed, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from loaderwatch import __version__
from loaderwatch.core.errors import ConfigError, LoaderwatchError
from loaderwatch.core.gentle import import_gently
from loaderwatch.core.language import Spoken, say, spoken
from loaderwatch.core.printable import Printable


class Command(NamedTuple):
    """A command: its name, its line in ``--help``, and the module that knows the rest."""

    name: str
    line: str
    module: str


COMMANDS: Final = (
    Command("serve", "show the page and take in what training jobs send", "loaderwatch.cli.serve"),
    Command("stop", "end the server that shows the page", "loaderwatch.cli.stop"),
    Command("demo", "a guided demo on this machine, no GPU needed", "loaderwatch.cli.demo"),
    Command("run", "run a script with every DataLoader attached, without changing it", "loaderwatch.cli.run"),
    Command("runs", "list the runs that are known here", "loaderwatch.cli.runs"),
    Command("analyze", "print what the detectors find in a run", "loaderwatch.cli.analyze"),
    Command("compare", "print what changed from one run to another", "loaderwatch.cli.compare"),
    Command("stacks", "take the stacks of a run's processes now, and print them", "loaderwatch.cli.stacks"),
    Command("export", "write the newest part of a run to a file", "loaderwatch.cli.recordings.export"),
    Command("import", "bring recorded runs into the store", "loaderwatch.cli.recordings.imports"),
    Command(
        "doctor",
        "audit the configuration of a script before it trains, or of a run",
        "loaderwatch.cli.doctor",
    ),
    Command("tune", "try out settings of a script's loader, without training", "loaderwatch.cli.tune"),
    Command("notify", "try out the addresses that are told of alerts", "loaderwatch.cli.notify"),
    Command("config", "show each setting and where its value comes from", "loaderwatch.cli.config"),
    Command("token", "the tokens of a server", "loaderwatch.cli.token"),
)


STARTED_BY: Final = "--started-by"
"""The option of ``serve`` that names who started it, if that was no person: it starts beside a training then."""
_SERVER_PARTS: Final = ("numpy", "fastapi", "duckdb", "apprise", "loaderwatch.detect.detectors")
"""What a server imports, a part at a time: each part is imported as a whole at low priority, however long it takes."""
_GENTLY_S: Final = 15.0
"""How long a server starts at low priority: after 30 s a streamer says that it does not answer."""


def build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser for a command line; ``args.run`` will be the ``run`` of the command that it chooses.

    Raises:
        LoaderwatchError: the command needs something that is not installed.
    """
    chosen = next(
        (word for word in argv if not word.startswith("-")), None
    )  # no option before it takes a value
    parser = argparse.ArgumentParser(
        prog="loaderwatch", description="Live diagnosis of PyTorch input-pipeline stalls."
    )
    parser.add_argument("--version", action="version", version=f"loaderwatch {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, line, module in COMMANDS:
        described = subparsers.add_parser(name, help=line)
        if name == chosen:
            if STARTED_BY in argv:
                import_gently(*_SERVER_PARTS, module, within_s=_GENTLY_S)
            command = importlib.import_module(module)
            command.prepare_parser(described)
            about = str(described.description or command.__doc__)
            described.description = about.replace("``", "")  # a terminal does not draw a docstring's marks
            described.set_defaults(run=command.run)
        _put_into_words(described)
    _put_into_words(parser)
    return parser


def _put_into_words(parser: argparse.ArgumentParser) -> None:
    """Say what a parser says in the reader's language, before its lines are wrapped, and without the colours of Python 3.14."""
    vars(parser)["color"] = False
    paragraphs = (parser.description or "").split("\n\n")
    parser.description = "\n\n".join(say(" ".join(paragraph.split())) for paragraph in paragraphs)
    for action in parser._actions:
        choices = getattr(action, "_choices_actions", [])
        for one in (action, *choices):
            one.help = one.help and say(one.help)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; what it prints is printable, and for people in their language."""
    argv = sys.argv[1:] if argv is None else argv
    language = None if "--json" in argv else spoken()
    stderr = sys.stderr
    out, err = (
        Printable(stream) if language is None else Spoken(stream, language) for stream in (sys.stdout, stderr)
    )
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            return _run(argv)
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        stderr.close()
        return 1
    finally:
        for stream in (out, err):
            with contextlib.suppress(OSError, ValueError):  # its reader went away, or it was closed
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
