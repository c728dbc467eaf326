"""The election of one active streamer per host and run, and of one standby that takes over when it dies.

Each place is a file lock, which the kernel releases when its holder dies.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.core.files import opener
from loaderwatch.core.lock import HELD_FILES_STAY, STREAMER_LOCK, is_held, try_lock, wait_for_lock

log = logging.getLogger(__name__)

STANDBY_NAME: Final = "standby.lock"


class FileLock:
    """A lock on a file, held until ``release`` or the death of this process.

    The end of a run unlinks the file, and another process may recreate it. So a lock counts only while the
    path leads to the locked file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free.

        Raises:
            OSError: the file cannot be created because its folder is gone.
        """
        return self._acquire(block=False)

    def acquire(self) -> bool:
        """Wait for the lock; return False if the file's folder disappeared meanwhile."""
        try:
            return self._acquire(block=True)
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _acquire(self, *, block: bool) -> bool:
        while True:
            fd = opener(str(self.path), os.O_RDWR | os.O_CREAT)
            try:
                if block:
                    wait_for_lock(fd)
                elif not try_lock(fd):
                    os.close(fd)
                    return False
                if _same_file(fd, self.path):
                    self._fd = fd
                    return True
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the path now leads to another file: try that one


def _same_file(fd: int, path: Path) -> bool:
    if HELD_FILES_STAY:
        return True
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False


@dataclass(frozen=True, slots=True)
class Office:
    """The place of the active streamer. ``inherited``: it was a standby until the other one died or ended."""

    lock: FileLock
    inherited: bool


def elect(folder: Path, stand_by: Callable[[], None] = lambda: None) -> Office | None:
    """Become the active streamer of a run's ring folder, or wait as its standby if there is an active one.

    Returns None when this process is not needed: both places are taken, or the run ended while it waited.

    Args:
        folder: the folder of the run's rings.
        stand_by: called before the wait, which may be as long as the run.
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
    stand_by()
    try:
        return Office(active, inherited=True) if active.acquire() else None
    finally:
        standby.release()


def _try_patiently(lock: FileLock) -> bool:
    """Try a few times, because the active streamer takes this lock for a moment to check for a standby."""
    for _ in range(4):
        if lock.try_acquire():
            return True
        time.sleep(0.05)
    return False


def standby_missing(folder: Path) -> bool:
    """Whether no process stands by."""
    return not is_held(folder / STANDBY_NAME)


def clear_away(folder: Path) -> None:
    """Remove the lock files and the folder of a run on systems that cannot remove a held file."""
    if not HELD_FILES_STAY:
        return
    # Another process holds a lock or starts in the folder; the last one to leave removes it.
    with contextlib.suppress(OSError):
        files = list(folder.iterdir())
        if all(path.suffix == ".lock" for path in files):
            for path in files:
                path.unlink(missing_ok=True)
            folder.rmdir()
