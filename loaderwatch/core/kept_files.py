"""Files that stay open in the user's process, whose code may close any descriptor and reuse its number."""

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
"""Our descriptors have numbers below this one.

Each fork copies the kernel's table of descriptors, which has 8 bytes for each number up to the highest.
"""
ROOM: Final = 64
"""The search for a free number begins this far below ``HIGHEST_NUMBER``, or below the limit on open files.

A process has at most two descriptors of ours.
"""
_MAP_FIXED: Final = 0x10  # on Linux, macOS and the BSDs; Python's ``mmap`` has no name for it


class KeptFile:
    """A file that stays open under a high number. If closed, the next opened file does not get the number.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, flags: int) -> None:
        self.path = path
        self.fd = _move_up(opener(str(path), flags))
        self._identity = _identity(self.fd)

    def close(self) -> None:
        """Close the descriptor, unless it belongs to another file by now."""
        try:
            if _identity(self.fd) == self._identity:
                os.close(self.fd)
        except OSError:
            return  # the user's code has closed it


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


def _move_up(fd: int) -> int:
    """Move a file to a descriptor with a high number, and return that; without a free one, return ``fd``."""
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

    ``mmap.mmap`` keeps a copy of the descriptor, and closes that number at its end: by then it may be another
    file's. So the file is mapped over memory without a file. All its pages are loaded at once, because a page
    fault on the first record of each page would be the most expensive moment of the writer.

    Raises:
        OSError: the file cannot be mapped.
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
