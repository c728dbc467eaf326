"""Whether anybody holds a lock file: the kernel gives a lock up when its holder dies, however it dies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

STREAMER_LOCK: Final = "streamer.lock"
"""In a run's ring folder; held by the streamer that streams."""


def is_held(path: Path) -> bool:
    """Whether a process holds this lock. False where there is no such file, True where it cannot be asked.

    The probe takes the lock for a moment, shared, so that many may probe at once.
    """
    try:
        fd = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        if fcntl is not None:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        else:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
