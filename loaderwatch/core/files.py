"""Folders and files that are this user's alone, whatever the umask, and whoever else may write where they lie."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import Final

from loaderwatch.core.system import HAS_OWNERS, own_user

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
    """The same where everybody may make folders, such as /dev/shm: whoever was there before us may not be trusted.

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
    """Whether a folder is one that nobody else can put files into; where files have no owners, whether it is a folder."""
    if not HAS_OWNERS:
        return stat.S_ISDIR(found.st_mode)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == own_user() and not found.st_mode & 0o022


def replace_file(draft: Path, path: Path) -> None:
    """Put a file in the place of another, in one step. On Windows not while somebody reads that one, so it is tried again.

    Raises:
        OSError: it cannot be.
    """
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


def opener(path: str, flags: int) -> int:
    """For ``open(..., opener=opener)``: a new file is this user's alone, and a link is not followed."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
