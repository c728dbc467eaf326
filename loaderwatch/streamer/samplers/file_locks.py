"""Who holds a file lock that excludes others: ``/proc/locks``, read once for all processes that are looked at together.

A process that waits for a lock by trying again and again (SQLite's busy handler, ``filelock``) sleeps meanwhile, and the kernel
does not know that it waits. Who holds the lock is known.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from loaderwatch.core.system import PROC

MOST_BYTES: Final = 2**18
"""Some four thousand locks; a host that serves files to others may have far more, of which the first are looked at."""


class FileLocks:
    """The processes that hold such a lock."""

    def __init__(self, proc_root: Path = PROC) -> None:
        self._path = proc_root / "locks"
        self._read_ns: int | None = None
        self._holders: frozenset[int] | None = None

    def held_by(self, pid: int, now_ns: int) -> bool | None:
        """Return whether the process holds one; None where the kernel does not tell. Equal times are one look."""
        if now_ns != self._read_ns:
            self._read_ns, self._holders = now_ns, self._read()
        return None if self._holders is None else pid in self._holders

    def _read(self) -> frozenset[int] | None:
        try:
            with self._path.open("rb") as file:
                return holders(file.read(MOST_BYTES))
        except OSError:
            return None


def holders(text: bytes) -> frozenset[int]:
    """Parse lines such as ``4: POSIX  ADVISORY  WRITE 23311 fe:00:2285664 0 EOF``; those with an arrow only wait."""
    lines = (line.split() for line in text.splitlines())
    return frozenset(int(f[4]) for f in lines if len(f) > 4 and f[3] == b"WRITE" and f[4].isdigit())
