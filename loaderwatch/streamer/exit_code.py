"""The exit code of a training process, from the kernel: the streamer is not the parent of that process."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

from loaderwatch.core.system import PROC

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# linux/pidfd.h, struct pidfd_info: u64 mask, u64 cgroup, eleven u32 of ids, s32 exit_code
_INFO: Final = struct.Struct("=QQ11Ii")
_GET_INFO: Final = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
_EXIT: Final = 1 << 3


class Handle:
    """A pidfd of one process. Opened in its lifetime, it gives the exit code even after the parent's wait."""

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self._stat = proc_root / str(pid) / "stat"
        self._descriptor: int | None = None
        if hasattr(os, "pidfd_open"):
            try:
                self._descriptor = os.pidfd_open(pid)
            except OSError:
                return  # the process is gone, or a sandbox forbids this

    def exit_code(self) -> int | None:
        """Return the exit code as in ``subprocess`` (-9 is SIGKILL); None if the kernel does not say.

        Linux says it since 6.15; before, only until the parent has waited for the process.
        """
        if self._descriptor is None:
            return None
        status = self._collected()
        if status is None:
            status = self._uncollected()
        if status is None:
            status = self._collected()  # the parent has just waited for it
        return None if status is None else os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        """Close the handle."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _collected(self) -> int | None:
        if fcntl is None or self._descriptor is None:
            return None
        answer = bytearray(_INFO.pack(_EXIT, *[0] * 13))
        try:
            fcntl.ioctl(self._descriptor, _GET_INFO, answer)
        except OSError:
            return None  # an older kernel
        mask, *_, status = _INFO.unpack(answer)
        return status if mask & _EXIT else None

    def _uncollected(self) -> int | None:
        """Return the last field of a zombie's ``stat``; it is also 0 for a reader without permission."""
        try:
            fields = self._stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return int(fields[-1]) or None if fields and fields[0] in "ZX" else None
