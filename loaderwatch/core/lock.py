"""Lock files. The kernel frees a lock when its holder dies in any way. Only this module takes locks."""

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
"""The lock file of the active streamer, in a run's ring folder."""

HELD_FILES_STAY: Final = fcntl is None
"""Whether an open lock file cannot be removed, as on Windows."""

_ASK_AGAIN_S: Final = 0.5


def try_lock(fd: int) -> bool:
    """Take the lock on an open file if it is free. Closing the file releases it."""
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
    """Take the lock on an open file when it is free."""
    if fcntl is not None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        return
    while not try_lock(fd):  # msvcrt's own wait gives up after ten seconds
        time.sleep(_ASK_AGAIN_S)


def is_held(path: Path) -> bool:
    """Whether a process holds this lock: False without such a file, True if we may not open the file.

    The check takes the lock for a moment, as a shared one where possible, so several checks can run at once.
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
