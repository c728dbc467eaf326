"""Lock files. The kernel frees a lock when its holder dies, however it dies; only this module takes locks."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

STREAMER_LOCK: Final = "streamer.lock"
"""The lock file in a run's ring folder that the active streamer holds."""

HELD_FILES_STAY: Final = fcntl is None
"""Whether a lock file cannot be removed while somebody has it open, as on Windows."""

_ASK_AGAIN_S: Final = 0.5


def try_lock(fd: int) -> bool:
    """Take the lock on an open file if it is free. Closing the file gives it up."""
    if fcntl is None:
        try:
            os.lseek(fd, 0, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_for_lock(fd: int) -> None:
    """Take the lock on an open file, as soon as it is free."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return
    while not try_lock(fd):  # msvcrt's own waiting gives up after ten seconds
        time.sleep(_ASK_AGAIN_S)


def is_held(path: Path) -> bool:
    """Whether a process holds this lock. The answer is False where there is no such file, True where we may not open it.

    The question takes the lock for a moment: a shared one where the system has those, so that many may ask at once.
    """
    try:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        if fcntl is None:
            return not try_lock(fd)
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
