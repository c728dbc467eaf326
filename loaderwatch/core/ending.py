"""How a process ended, in words: whether somebody stopped it, and with which signal."""

from __future__ import annotations

import re
import signal
from typing import Final

CTRL_C: Final = "Ctrl-C (KeyboardInterrupt)"
SIGKILL: Final = 9  # Windows has no such name
_STOPS: Final = (signal.SIGINT, signal.SIGTERM, 1, 3)  # 1 is SIGHUP, 3 SIGQUIT: Windows has no such names
_BY_SIGNAL: Final = 128
"""Exit codes of shells and of many signal handlers are this plus the signal's number."""
_INTERRUPT: Final = re.compile(r"uncaught KeyboardInterrupt\b")
_EXIT_CODE: Final = re.compile(r"exit code (\d{1,3})")


def signal_name(number: int) -> str:
    """Return "SIGKILL" for 9; "signal 61" for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return {1: "SIGHUP", 3: "SIGQUIT"}.get(number, f"signal {number}")


def killed_worker(pid: int, number: int) -> str:
    """Say that a signal killed a DataLoader worker, in PyTorch's words, by which the detectors know it."""
    return f"DataLoader worker (pid {pid}) is killed by signal: {signal.strsignal(number)}"


def stopped_by(last_words: str | None, exit_code: int | None) -> str | None:
    """Return how somebody stopped a process: "SIGTERM", or Ctrl-C; None if nobody is known to have.

    ``last_words`` are the process's own words. Without them, ``exit_code`` counts, as in ``subprocess``.
    """
    if last_words:
        if _INTERRUPT.match(last_words):
            return CTRL_C
        match = _EXIT_CODE.fullmatch(last_words)
        exit_code = int(match[1]) if match else None
    if exit_code is None:
        return None
    number = -exit_code if exit_code < 0 else exit_code - _BY_SIGNAL
    return signal_name(number) if number in _STOPS else None
