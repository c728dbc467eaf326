"""Files that we keep in the user's process. Its code may close any descriptor, and then open a file of its own under the same number."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path
from typing import Final

from loaderwatch.core.files import opener

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HIGHEST_NUMBER: Final = 4096
"""Descriptors of ours have numbers below this one. The kernel's table of descriptors reaches to the highest of them, with 8 bytes for
each number, and is copied at each fork."""
ROOM: Final = 64
"""How far below ``HIGHEST_NUMBER``, or below the limit on open files, we look for a free number: a process has two of ours at most."""
_MAP_FIXED: Final = 0x10  # of Linux, macOS and the BSDs; Python's ``mmap`` does not name it


class KeptFile:
    """A file that stays open, under a high number, which the next file that is opened does not get when ours was closed.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self.fd = _move_up(opener(str(path), flags))
        self._identity = _identity(self.fd)

    def close(self) -> None:
        """Close the descriptor, unless it is another file's by now."""
        try:
            if _identity(self.fd) == self._identity:
                os.close(self.fd)
        except OSError:
            return  # the user's code has closed it


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _move_up(fd: int) -> int:
    """Return another descriptor of the file with a high number, and close this one; this one where there is no such number."""
    if fcntl is None:
        return fd
    limit = os.sysconf("SC_OPEN_MAX")  # -1: no limit
    highest = min(limit, HIGHEST_NUMBER) if limit > 0 else HIGHEST_NUMBER
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(highest - ROOM, fd + 1))
    except OSError:
        return fd
    os.close(fd)
    return moved


def map_file(fd: int, size: int) -> mmap.mmap:
    """Map a file for writing, and keep no descriptor of it.

    ``mmap.mmap`` keeps a copy of the descriptor, and closes that number when it goes: by then it may be another file's. So the file is
    put in the place of memory without a file. All its pages are brought in at once, because a page fault on each page's first record
    would be the writer's dearest moment.

    Raises:
        OSError: it cannot be mapped.
    """
    if not hasattr(mmap, "MAP_PRIVATE"):  # Windows, where a map has no descriptor
        return mmap.mmap(fd, size)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    function = ctypes.CDLL(None, use_errno=True).mmap
    function.restype = ctypes.c_void_p
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long)
    flags = mmap.MAP_SHARED | _MAP_FIXED | getattr(mmap, "MAP_POPULATE", 0)
    if function(place, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, fd, 0) != place:
        code = ctypes.get_errno()
        raise OSError(code, f"mmap: {os.strerror(code)}")
    return memory
