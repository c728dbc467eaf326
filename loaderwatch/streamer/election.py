"""Who streams: one active streamer per host and run, one standby that takes over when it dies.

Both places are OS file locks, so they are given up by the kernel when their holder dies, however it dies.
"""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.core.lock import STREAMER_LOCK, is_held

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
    import msvcrt

log = logging.getLogger(__name__)

STANDBY_NAME: Final = "standby.lock"


class FileLock:
    """A lock on a file, held until ``release`` or the death of this process.

    The file may be unlinked and made anew by others (the end of a run does), so a lock only counts while the path still
    leads to the file that is locked.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def try_acquire(self) -> bool:
        """Take the lock if it is free.

        Raises:
            OSError: the file cannot be made (its folder is gone).
        """
        return self._acquire(block=False)

    def acquire(self) -> bool:
        """Wait for the lock; False if the file's folder went away meanwhile."""
        try:
            return self._acquire(block=True)
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the lock up."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _acquire(self, *, block: bool) -> bool:
        while True:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            try:
                if not _lock(fd, block=block):
                    os.close(fd)
                    return False
                if _same_file(fd, self.path):
                    self._fd = fd
                    return True
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the path leads to another file by now: try that one


def _lock(fd: int, *, block: bool) -> bool:
    if fcntl is None:
        try:
            # LK_LOCK gives up after ten tries of a second each; the caller's loop tries again.
            msvcrt.locking(fd, msvcrt.LK_LOCK if block else msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if block else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _same_file(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Office:
    """What the active streamer holds. ``inherited``: it stood by until another one died or had done everything."""

    lock: FileLock
    inherited: bool


def elect(folder: Path) -> Office | None:
    """Become the active streamer of a run's ring folder, waiting as its standby if there is one already.

    Returns None when this process is not needed: both places are taken, or the run ended while it waited.
    """
    active = FileLock(folder / STREAMER_LOCK)
    standby = FileLock(folder / STANDBY_NAME)
    try:
        if active.try_acquire():
            return Office(active, inherited=False)
        if not _try_patiently(standby):
            return None
    except FileNotFoundError:
        return None
    log.info("another streamer is active; standing by")
    try:
        return Office(active, inherited=True) if active.acquire() else None
    finally:
        standby.release()


def _try_patiently(lock: FileLock) -> bool:
    """Try a few times: the active streamer takes this lock for a moment to see whether anybody holds it."""
    for _ in range(4):
        if lock.try_acquire():
            return True
        time.sleep(0.05)
    return False


def standby_missing(folder: Path) -> bool:
    """Whether nobody stands by."""
    return not is_held(folder / STANDBY_NAME)
