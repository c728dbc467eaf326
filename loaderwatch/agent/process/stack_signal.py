"""The stack signal: a free real-time signal on which ``faulthandler`` writes the stacks.

faulthandler reads the stacks of running threads, which sometimes crashes the process. So it does so under a
guard. Without the compiled guard, and in Python 3.10, only the thread that gets the signal writes its stack.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
from pathlib import Path
from typing import Final

from loaderwatch.agent.guard import in_own_language
from loaderwatch.agent.hot import guard_stacks
from loaderwatch.agent.process.printed_once import say_once
from loaderwatch.core.kept_files import KeptFile

_FIRST: Final = 7
"""The lowest offset from SIGRTMIN that is tried; other libraries take the lowest signals first."""

_registered: Final[dict[int, KeptFile]] = {}
"""The open file that faulthandler writes to, for each signal."""


def free_signal() -> int:
    """Return a real-time signal without a handler in this process; 0 where there is none."""
    return next(iter(free_signals()), 0)


def free_signals() -> list[int]:
    """Return the real-time signals without a handler in this process, in order, without the lowest ones.

    A handler in C code shows in the mask of caught signals, not in Python's own table.
    """
    first = getattr(signal, "SIGRTMIN", None)
    last = getattr(signal, "SIGRTMAX", None)
    if first is None or last is None or not hasattr(faulthandler, "register"):
        return []
    taken = _taken_signals()
    return [
        int(number)
        for number in range(first + _FIRST, last)
        if number not in taken and signal.getsignal(number) in (signal.SIG_DFL, None)
    ]


def _taken_signals() -> set[int]:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return set()
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigCgt:", "SigIgn:", "SigBlk:"))]
    return {number for number in range(1, 65) for mask in masks if mask >> (number - 1) & 1}


def register_stacks(path: Path, number: int) -> bool:
    """Append all threads' stacks to the file on this signal; return False without a signal or a file."""
    if not number:
        return False
    try:
        file = KeptFile(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        why = str(error.strerror)
        say_once(in_own_language("stacks-not-written", folder=str(path.parent), why=why))
        return False
    others = guard_stacks is not None and sys.version_info >= (3, 11)  # 3.10 counts references while it reads
    faulthandler.register(number, file=file.fd, all_threads=others, chain=False)
    if guard_stacks is not None:
        guard_stacks(number, file.fd, os.fsencode(path))
    previous_file = _registered.pop(number, None)
    _registered[number] = file
    if previous_file is not None:
        previous_file.close()
    return True


def release_stacks(number: int) -> None:
    """Free the signal and close its file."""
    file = _registered.pop(number, None)
    if file is not None:
        faulthandler.unregister(number)
        file.close()
