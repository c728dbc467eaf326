"""Which processes hold a file lock that excludes others: ``/proc/locks``, read once per round.

A process that retries for a lock (SQLite's busy handler, ``filelock``) sleeps between its tries. The kernel
does not know that it waits, but it knows the holder of the lock.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from loaderwatch.core.system import PROC

MOST_BYTES: Final = 2**18
"""About four thousand locks. A file server may have far more; only the first are read."""


class FileLocks:
    """The processes that hold an exclusive file lock."""

    def __init__(self, proc_root: Path = PROC) -> None:
        self._path = proc_root / "locks"
        self._read_ns: int | None = None
        self._holders: frozenset[int] | None = None

    def held_by(self, pid: int, now_ns: int) -> bool | None:
        """Return whether the process holds one; None if unknown. Calls with the same time share one read."""
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
    """Parse lines like ``4: POSIX  ADVISORY  WRITE 23311 fe:00:2285664 0 EOF``; one with an arrow waits."""
    lines = (line.split() for line in text.splitlines())
    return frozenset(int(f[4]) for f in lines if len(f) > 4 and f[3] == b"WRITE" and f[4].isdigit())
