"""Folders and files that only this user can write, whatever the umask, even where everybody may write.

Files that we read are checked as well: else we would trust a token, an address or a module from another user.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from loaderwatch.core.system import HAS_OWNERS, own_user

DRAFT: Final = ".new"
"""The ending of a file that is being written. A leftover file belongs to a process that was killed."""
REPLACE_WITHIN_S: Final = 0.5


class NotPrivate(OSError):
    """A folder or file that should be ours belongs to somebody else, or others may write to it."""


def private_folder(path: Path) -> Path:
    """Make a folder and its missing parents, for this user alone. An existing folder stays as it is.

    Raises:
        OSError: the folder cannot be made.
    """
    if not path.is_dir():
        if not path.parent.is_dir():
            private_folder(path.parent)
        path.mkdir(exist_ok=True, mode=0o700)
    return path


def temporary_folder() -> Path:
    """Return the folder for temporary files; if none is writable, the first one that a user would check."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return Path(os.environ.get("TMPDIR") or "/tmp")


def own_folder(path: Path) -> Path:
    """Make a folder in a place where everybody may make folders, as in /dev/shm; refuse a foreign one.

    Raises:
        NotPrivate: the path is somebody else's, a link, not a folder, or writable by others.
        OSError: the folder cannot be made.
    """
    try:
        private_folder(path)
    except FileExistsError as error:  # a file, or a link to a missing target
        raise NotPrivate(errno.EPERM, "it is no folder", error.filename) from error
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise NotPrivate(errno.EPERM, "it is a link", str(path))
    _refuse_foreign(path, status)
    return path


def check_own(path: Path, *, sticky_too: bool = False) -> None:
    """Refuse a folder in which another user can change our files. A missing folder is accepted.

    Root's folders count as one's own, and the user's own link may lead elsewhere. With ``sticky_too``, others
    may add files but not replace ours, as in /tmp. Then each used file must be checked itself.

    Raises:
        NotPrivate: the folder or the link belongs to somebody else, or others may write to it.
        OSError: the folder cannot be examined.
    """
    try:
        # This includes a link to a missing target: the link's owner decides what appears there.
        _refuse_foreign_link(path, path.lstat())
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing in it can be read
    _refuse_foreign(path, status, roots_too=True, sticky_too=sticky_too)


def read_own(path: Path) -> bytes:
    """Return the content of a file that no other user can change.

    Root's files count as one's own. The open file is checked, so nobody can replace it after the check.

    Raises:
        NotPrivate: the file, a link to it, or its folder belongs to somebody else or is writable by others.
        OSError: the file cannot be read.
    """
    check_own(path.parent, sticky_too=True)
    # Non-blocking: somebody could have put a pipe there, on which an open would wait.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        status = os.fstat(descriptor)
        _refuse_foreign_link(path, path.lstat())
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivate(errno.EPERM, "it is no file", str(path))
        _refuse_foreign(path, status, roots_too=True)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _refuse_foreign_link(path: Path, status: os.stat_result) -> None:
    """Refuse another user's link. Who may write to a link does not matter: a link has no mode of its own."""
    if HAS_OWNERS and stat.S_ISLNK(status.st_mode) and status.st_uid not in (own_user(), 0):
        raise NotPrivate(errno.EPERM, f"it is a link of user {status.st_uid}'s", str(path))


def _refuse_foreign(
    path: Path, status: os.stat_result, *, roots_too: bool = False, sticky_too: bool = False
) -> None:
    """Refuse a file or folder that others own or can change. Without owners on this system, all pass."""
    if not HAS_OWNERS:
        return
    if status.st_uid != own_user() and not (roots_too and status.st_uid == 0):
        raise NotPrivate(errno.EPERM, f"it belongs to user {status.st_uid}, not to you", str(path))
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky_too and status.st_mode & stat.S_ISVTX):
        raise NotPrivate(errno.EPERM, "others may write to it; chmod go-w", str(path))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file for this user alone. A concurrent reader sees the whole old or the whole new content.

    Raises:
        OSError: the file cannot be written; the old content is still there.
    """
    mark = threading.get_native_id()  # no other thread of this system has it
    draft = path.with_name(f"{path.name}.{mark}{DRAFT}")
    # The object exists before the file is open, so `finally` closes the file even if an alarm raises.
    file = io.FileIO.__new__(io.FileIO)
    try:
        draft.unlink(missing_ok=True)  # its mode was chosen by the process that left it there
        file.__init__(draft, "xb", opener=opener)  # type: ignore[misc]
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]
        file.close()  # before the move: Windows does not move open files
        _replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    finally:
        file.close()


def _replace(draft: Path, path: Path) -> None:
    """Replace ``path`` by ``draft``. Windows refuses that while somebody reads ``path``, so try again."""
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
    """Return a name for a file that is set aside: the first free of ``path``, ``path-2``, ``path-3``, …"""
    target, number = path, 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}-{number}")
    return target


def opener(path: str, flags: int) -> int:
    """Open a file for ``open(..., opener=opener)``: only this user can read a new one; links are refused."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0), 0o600)
