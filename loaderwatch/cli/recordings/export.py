"""``loaderwatch export``: the newest part of a run as one small file for another person.

``loaderwatch analyze FILE`` reads it. It holds what the page shows: script, arguments, paths, host names and
stacks. With ``--redact`` these are replaced; numbers, line numbers, and names of functions and classes stay.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from loaderwatch.cli.flags import add_data_dir, add_run, seconds
from loaderwatch.cli.run_source import open_run
from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.server.recordings.recording import pack, redacted
from loaderwatch.texts import in_own_language


class CannotWrite(LoaderwatchError):
    """The file cannot be written."""


def prepare_parser(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    add_run(parser)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--redact", action="store_true")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--last", type=seconds, default=600.0, metavar="SECONDS")
    part.add_argument("--whole", action="store_true")
    add_data_dir(parser)


def run(args: argparse.Namespace) -> int:
    """Write the run, or its newest part, to the file, and return the exit code.

    Raises:
        CannotWrite: the file cannot be written.
    """
    with open_run(args.which, args.data_dir) as source:
        recording = source.recording(None if args.whole else args.last)
    packed = pack(redacted(recording) if args.redact else recording)
    try:
        args.file.write_bytes(packed)
    except OSError as error:
        raise CannotWrite(f"{args.file} cannot be written: {error.strerror or error}") from error
    kilobytes = f"{len(packed) / 1e3:,.0f}"
    print(
        in_own_language("run-exported", file=str(args.file), kilobytes=kilobytes, redacted=bool(args.redact))
    )
    return 0
