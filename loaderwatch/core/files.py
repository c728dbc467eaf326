"""Folders and files that only this user can write, whatever the umask, even in folders where everybody may write."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from loaderwatch.core.system import HAS_OWNERS, own_user

DRAFT: Final = ".new"
"""The ending of a file that is being written; a file that keeps it belongs to a process that was killed."""
REPLACE_WITHIN_S: Final = 0.5


class NotPrivate(OSError):
    """A folder that should be ours belongs to somebody else, or others may write to it."""


def private_folder(path: Path) -> Path:
    """Make the folder, and those above it that are missing, for this user alone.

    One that is there already stays as it is.

    Raises:
        OSError: it cannot be made.
    """
    if not path.is_dir():
        if not path.parent.is_dir():
            private_folder(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)
    return path


def own_folder(path: Path) -> Path:
    """Make such a folder where everybody may make folders, as in /dev/shm; refuse one that somebody else put there.

    Raises:
        NotPrivate: it is somebody else's, a link, or writable by others.
        OSError: it cannot be made.
    """
    private_folder(path)
    found = path.lstat()
    if is_own(found):
        return path
    what = (
        "it is a link"
        if stat.S_ISLNK(found.st_mode)
        else f"it belongs to user {found.st_uid}, not to you"
        if found.st_uid != own_user()
        else "others may write to it"
    )
    raise NotPrivate(errno.EPERM, what, str(path))


def is_own(found: os.stat_result) -> bool:
    """Whether nobody else can put files into this folder. Where files have no owners, whether it is a folder."""
    if not HAS_OWNERS:
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == own_user() and not found.st_mode & 0o022


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file for this user alone. Whoever reads it meanwhile sees the old content or the new one as a whole.

    Raises:
        OSError: the file cannot be written; the old content is still there.
    """
    mark = threading.get_native_id()  # no other thread of this system has it
    draft = path.with_name(f"{path.name}.{mark}{DRAFT}")
    try:
        draft.unlink(missing_ok=True)  # whoever left it there chose its mode
        with open(draft, "xb", opener=opener) as file:
            file.write(content)
        _replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def _replace(draft: Path, path: Path) -> None:
    """Put ``draft`` in the place of ``path``. Windows refuses that while somebody reads ``path``, so we try again."""
    give_up_at = time.monotonic() + REPLACE_WITHIN_S
    while True:
        try:
            draft.replace(path)
        except PermissionError:
            if HAS_OWNERS or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
        else:
            return


def free_path(path: Path) -> Path:
    """Return a name for a file that is set aside: ``path`` if it is free, else the first free of ``path-2``, ``path-3``, …"""
    target, number = path, 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}-{number}")
    return target


def opener(path: str, flags: int) -> int:
    """Open a file for ``open(..., opener=opener)``: a new one is readable by this user only, and no link is followed."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
