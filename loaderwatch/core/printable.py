"""Cleans texts for terminals, logs and messages: a training job on another machine can put anything into a name."""

from __future__ import annotations

import io
import logging
import re
from typing import BinaryIO, Final, TextIO

_TOKEN: Final = re.compile(r"(token=)[^\s&\"']+", re.IGNORECASE)


def printable(text: str) -> str:
    """Remove the characters that move a cursor or turn the direction of text; line breaks and tabs stay."""
    return "".join(c for c in text if c in "\n\t" or c.isprintable())


def one_line(text: str) -> str:
    """Clean a text in the same way and put it on one line."""
    return printable(" ".join(text.split()))


def without_tokens(text: str) -> str:
    """Cut tokens out of a text that goes into a log, which people send around: addresses of the page carry one."""
    return _TOKEN.sub(r"\1…", text)


class Printable(io.TextIOBase):
    """A stream for people: what moves a cursor or turns the direction of text does not come through, whoever prints it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text without such characters."""
        self._stream.write(printable(text))
        return len(text)

    def flush(self) -> None:
        """Write what the stream below still holds."""
        self._stream.flush()

    @property
    def buffer(self) -> BinaryIO:
        """The stream below, for bytes that are nobody's sentences."""
        self.flush()
        return self._stream.buffer

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the stream below."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether a person looks on."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """Return the descriptor that is written to."""
        return self._stream.fileno()


class LogFormatter(logging.Formatter):
    """Formats log records so that nothing but a record begins a line: a record's further lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Format as ``logging.Formatter`` does, without control characters and tokens."""
        return without_tokens(printable(super().format(record))).replace("\n", "\n    ")


def log_to_stderr(form: str) -> None:
    """Write this process's log to stderr, from INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
