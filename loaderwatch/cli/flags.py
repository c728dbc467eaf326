"""Arguments shared by several commands, and their values."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the argument RUN, as ``which``, in the form for ``open_run``."""
    parser.add_argument("which", metavar="RUN")


def add_data_dir(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--data-dir``; None if not given."""
    parser.add_argument("--data-dir", type=path, default=None, metavar="DIR")


def add_hang_after(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--hang-after`` in seconds; None if not given."""
    parser.add_argument("--hang-after", type=_hang_seconds, default=None, metavar="SECONDS")


def is_file(argument: str | Path) -> bool:
    """Whether an argument names a file. The argument may be any text, even longer than a file name."""
    with contextlib.suppress(OSError):
        return Path(argument).is_file()
    return False


def is_folder(argument: str | Path) -> bool:
    """Whether an argument names a folder. The argument may be any text."""
    with contextlib.suppress(OSError):
        return Path(argument).is_dir()
    return False


def path(text: str) -> Path:
    """Return the absolute path of a file or folder, valid after a change of directory."""
    return Path(text).expanduser().absolute()


def seconds(text: str) -> float:
    """Return a time in seconds, above 0.

    Raises:
        argparse.ArgumentTypeError: the text is not such a time.
    """
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use a number of seconds above 0")
    return number


def duration(text: str) -> float:
    """Return a time such as ``30s``, ``10m`` or ``2h`` in seconds, above 0; a bare number is seconds.

    Raises:
        argparse.ArgumentTypeError: the text is not such a time.
    """
    unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:].lower())
    try:
        return seconds(text if unit is None else text[:-1]) * (unit or 1)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"it is {text!r}; use a time such as 30s, 10m or 2h") from None


def port(text: str) -> int:
    """Return a port to listen on; 0 means any free port.

    Raises:
        argparse.ArgumentTypeError: the text is not a port.
    """
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"{number} is not a port; use 0 to 65535")
    return number


def _hang_seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not number >= 1:
        raise argparse.ArgumentTypeError(f"{text} s would call every hiccup a hang; use 1 or more")
    return number
