"""Texts from other machines, made fit for a terminal, a log or a message: names there are whatever a training job says."""

from __future__ import annotations

import logging
import re
from typing import Final

_TOKEN: Final = re.compile(r"(token=)[^\s&\"']+", re.IGNORECASE)


def printable(text: str) -> str:
    """Without what moves a cursor or turns the direction of text; lines and tabs stay."""
    return "".join(c for c in text if c in "\n\t" or c.isprintable())


def one_line(text: str) -> str:
    """The same on a single line."""
    return printable(" ".join(text.split()))


def without_tokens(text: str) -> str:
    """Fit for a file that people send around: addresses of the page carry a token."""
    return _TOKEN.sub(r"\1…", text)


class LogFormatter(logging.Formatter):
    """Each record begins a line, and no other text does: what follows the first line of a record is set in."""

    def format(self, record: logging.LogRecord) -> str:
        """As ``logging.Formatter``, without control characters and tokens."""
        return without_tokens(printable(super().format(record))).replace("\n", "\n    ")


def log_to_stderr(form: str) -> None:
    """The process's log, from INFO on."""
    handler = logging.StreamHandler()
    handler.setFormatter(LogFormatter(form))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
