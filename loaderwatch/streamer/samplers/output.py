"""The last lines of the job's stdout and stderr, if ``loaderwatch run --keep-output`` named them as files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from loaderwatch.core.environment_variables import KEPT_OUTPUT
from loaderwatch.core.facts import OutputFile
from loaderwatch.core.printable import printable
from loaderwatch.core.wire import decode_json

MOST_LINES: Final = 20
MOST_CHARACTERS: Final = 500  # of a line
_TAIL_BYTES: Final = 64 * 1024


def last_lines(environ: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the last lines of each file, without control characters; empty if none is named or readable."""
    try:
        files = decode_json(KEPT_OUTPUT.read(environ), list[OutputFile])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return {}
    lines_by_name = {file.name: _lines(_tail(file)) for file in files}
    return {name: lines for name, lines in lines_by_name.items() if lines}


def _tail(file: OutputFile) -> bytes:
    """Return the end of the job's output; empty if another file now has that name."""
    try:
        # do not block if the name is now a named pipe
        descriptor = os.open(file.path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as opened:
            now = os.fstat(opened.fileno())
            if (now.st_dev, now.st_ino) != (file.device, file.inode):
                return b""
            begin = file.size if now.st_size >= file.size else 0  # the file was emptied meanwhile
            opened.seek(max(begin, now.st_size - _TAIL_BYTES))
            return opened.read(_TAIL_BYTES)
    except OSError:
        return b""


def _lines(tail: bytes) -> list[str]:
    """Return the last lines as a terminal shows them: a progress bar's last state."""
    text = tail.decode("utf-8", "replace").replace("\r\n", "\n")
    shown = [printable(line.rstrip("\r").rpartition("\r")[2])[:MOST_CHARACTERS] for line in text.split("\n")]
    return [line for line in shown if line.strip()][-MOST_LINES:]
