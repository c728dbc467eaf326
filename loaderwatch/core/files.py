"""Folders and files that only this user can write, whatever the umask, even in folders where everybody may write.

What we read is checked as well: a token, an address or a module that another user put there would be believed.
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
"""The ending of a file that is being written; a file that keeps it belongs to a process that was killed."""
REPLACE_WITHIN_S: Final = 0.5


class NotPrivate(OSError):
    """A folder or file that should be ours belongs to somebody else, or others may write to it."""


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


def temporary_folder() -> Path:
    """Return the folder for temporary files; where nothing can be written to any, the one in which a user looks first."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return Path(os.environ.get("TMPDIR") or "/tmp")


def own_folder(path: Path) -> Path:
    """Make such a folder where everybody may make folders, as in /dev/shm; refuse one that somebody else put there.

    Raises:
        NotPrivate: it is somebody else's, a link, no folder, or writable by others.
        OSError: it cannot be made.
    """
    try:
        private_folder(path)
    except FileExistsError as error:  # a file, or a link that leads nowhere
        raise NotPrivate(errno.EPERM, "it is no folder", error.filename) from error
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise NotPrivate(errno.EPERM, "it is a link", str(path))
    _refuse_foreign(path, found)
    return path


def check_own(path: Path, *, sticky_too: bool = False) -> None:
    """Refuse a folder in which another user can change what we put there. A missing one is no fault.

    Root's folders count as one's own, and a link of one's own may lead elsewhere. With ``sticky_too`` others may add files,
    as in /tmp, where they can replace none of ours: then each file that is used has to be looked at itself.

    Raises:
        NotPrivate: it, or the link, belongs to somebody else, or others may write to it.
        OSError: it cannot be looked at.
    """
    try:
        # Also a link that leads nowhere yet: its owner decides what appears there.
        _refuse_foreign_link(path, path.lstat())
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # nothing of it can be read
    _refuse_foreign(path, found, roots_too=True, sticky_too=sticky_too)


def read_own(path: Path) -> bytes:
    """Return the content of a file that no other user can change.

    Root's files count as one's own. The file is looked at once it is open, so that nobody can
    replace it in between.

    Raises:
        NotPrivate: the file, a link to it, or its folder belongs to somebody else or is writable by others.
        OSError: it cannot be read.
    """
    check_own(path.parent, sticky_too=True)
    # Without waiting, as a pipe that somebody put there would make us.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(descriptor)
        _refuse_foreign_link(path, path.lstat())
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise NotPrivate(errno.EPERM, "it is no file", str(path))
        _refuse_foreign(path, found, roots_too=True)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def _refuse_foreign_link(path: Path, found: os.stat_result) -> None:
    """Refuse a link of another user's. Whoever may write to a link is nobody: it has no mode of its own."""
    if HAS_OWNERS and stat.S_ISLNK(found.st_mode) and found.st_uid not in (own_user(), 0):
        raise NotPrivate(errno.EPERM, f"it is a link of user {found.st_uid}'s", str(path))


def _refuse_foreign(
    path: Path, found: os.stat_result, *, roots_too: bool = False, sticky_too: bool = False
) -> None:
    """The one check of who can change a file, or put files into a folder. Where files have no owners it lets all pass."""
    if not HAS_OWNERS:
        return
    if found.st_uid != own_user() and not (roots_too and found.st_uid == 0):
        raise NotPrivate(errno.EPERM, f"it belongs to user {found.st_uid}, not to you", str(path))
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not (sticky_too and found.st_mode & stat.S_ISVTX):
        raise NotPrivate(errno.EPERM, "others may write to it; chmod go-w", str(path))


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file for this user alone. Whoever reads it meanwhile sees the old content or the new one as a whole.

    Raises:
        OSError: the file cannot be written; the old content is still there.
    """
    mark = threading.get_native_id()  # no other thread of this system has it
    draft = path.with_name(f"{path.name}.{mark}{DRAFT}")
    # The object exists before the file is open. An alarm that raises between the two leaves nothing behind that `finally` cannot close.
    file = io.FileIO.__new__(io.FileIO)
    try:
        draft.unlink(missing_ok=True)  # whoever left it there chose its mode
        file.__init__(draft, "xb", opener=opener)  # type: ignore[misc]
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]
        file.close()  # before it is moved: Windows moves no open file
        _replace(draft, path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise
    finally:
        file.close()


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
