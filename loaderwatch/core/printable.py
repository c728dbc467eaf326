"""Cleans texts for terminals, logs and messages: a job on another machine can put anything into a name."""

from __future__ import annotations

import io
import logging
import re
import unicodedata
from typing import BinaryIO, Final, TextIO

_TOKEN: Final = re.compile(r"(token=)[^\s&\"']+", re.IGNORECASE)


def printable(text: str) -> str:
    """Remove the characters that move a cursor or change the direction of text; keep line breaks and tabs."""
    return "".join(c for c in text if c in "\n\t" or c.isprintable())


def one_line(text: str) -> str:
    """Remove such characters and put the text on one line."""
    return printable(" ".join(text.split()))


def columns(text: str) -> int:
    """Return how many columns of a terminal a line takes: a Chinese character takes two, an accent none."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def fitted(text: str, width: int) -> str:
    """Return a text on one line, cut to at most ``width`` columns of a terminal."""
    line = one_line(text)
    if columns(line) <= width:
        return line
    while columns(line) > width - 1:
        line = line[:-1]
    return f"{line}…"


def without_tokens(text: str) -> str:
    """Remove tokens from a text for a log, which people send around: addresses of the page contain one."""
    return _TOKEN.sub(r"\1…", text)


class Printable(io.TextIOBase):
    """A stream for people, which removes characters that move a cursor or change the direction of text."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text without such characters."""
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._stream.flush()

    @property
    def buffer(self) -> BinaryIO:
        """The underlying stream, for bytes that are not text for people."""
        self.flush()
        return self._stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the underlying stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor of the underlying stream."""
        return self._stream.fileno()


class LogFormatter(logging.Formatter):
    """Formats log records so that only a record begins a line: a record's other lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Format as ``logging.Formatter`` does, without control characters and tokens."""
        return without_tokens(printable(super().format(record))).replace("\n", "\n    ")


def log_to_stderr(form: str) -> None:
    """Write this process's log to stderr, from level INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
