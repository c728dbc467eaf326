"""The exit code of a training process, asked of the kernel: the streamer is not its parent, and a killed process says nothing."""

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
    """A handle of one process (a pidfd). Opened while the process lives, it gives the exit code even after its parent's wait."""

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self._stat = proc_root / str(pid) / "stat"
        self._descriptor: int | None = None
        if hasattr(os, "pidfd_open"):
            try:
                self._descriptor = os.pidfd_open(pid)
            except OSError:
                return  # the process is gone, or a sandbox forbids this

    def exit_code(self) -> int | None:
        """Return the exit code as in ``subprocess``: 3 is exit code 3, -9 is SIGKILL. None when the kernel does not tell.

        Linux tells since 6.15; before that, only while the parent has not waited for the process.
        """
        if self._descriptor is None:
            return None
        status = self._collected()
        if status is None:
            status = self._uncollected()
        if status is None:
            status = self._collected()  # its parent has just waited for it
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
        """Return the last field of a zombie's ``stat``, which is also 0 for those who may not read it."""
        try:
            fields = self._stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return int(fields[-1]) or None if fields and fields[0] in "ZX" else None
