"""Reads and parses /proc/<pid> and /proc/locks. A value is None where there is none or the kernel refuses."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.core.system import PROC, descriptor_limit

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


CLOCK_TICKS: Final[int] = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
PAGE_BYTES: Final[int] = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class Stat:
    """The fields of /proc/<pid>/stat that matter here."""

    state: str
    major_faults: int
    cpu_ticks: int  # user and system
    threads: int
    start_ticks: int  # since boot; with the pid, the identity of a process
    rss_bytes: int

    @property
    def cpu_ns(self) -> int:
        """CPU time of all threads so far."""
        return self.cpu_ticks * 1_000_000_000 // CLOCK_TICKS

    @property
    def alive(self) -> bool:
        """Whether the process lives. A zombie has ended; only its parent has not waited for it."""
        return self.state not in ("Z", "X", "x")


def parse_stat(text: bytes) -> Stat | None:
    """Parse /proc/<pid>/stat; the command in it may contain spaces and parentheses."""
    fields = text[text.rfind(b")") + 2 :].split()
    try:
        return Stat(
            state=fields[0].decode("ascii"),
            major_faults=int(fields[9]),
            cpu_ticks=int(fields[11]) + int(fields[12]),
            threads=int(fields[17]),
            start_ticks=int(fields[19]),
            rss_bytes=int(fields[21]) * PAGE_BYTES,
        )
    except (IndexError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Status:
    """The fields of /proc/<pid>/status that matter here."""

    tracer_pid: int | None
    caught_signals: int | None  # bit n-1: signal n has a handler
    voluntary_switches: int | None
    involuntary_switches: int | None
    anonymous_bytes: int | None = None
    pending_signals: int | None = None  # bit n-1: signal n was sent and no thread has taken it


def parse_status(text: bytes) -> Status:
    """Parse /proc/<pid>/status."""
    return Status(
        _line_value(text, b"\nTracerPid:", 10),
        _line_value(text, b"\nSigCgt:", 16),
        _line_value(text, b"\nvoluntary_ctxt_switches:", 10),
        _line_value(text, b"\nnonvoluntary_ctxt_switches:", 10),
        _kilobytes(text, b"\nRssAnon:"),
        _line_value(text, b"\nShdPnd:", 16),
    )


def parse_io(text: bytes) -> tuple[int | None, int | None, int | None]:
    """Parse ``(rchar, written, read_bytes)`` of /proc/<pid>/io.

    Written is ``wchar``, or ``write_bytes`` if larger: a mapped file is written without a call.
    """
    written = [
        count
        for name in (b"\nwchar:", b"\nwrite_bytes:")
        if (count := _line_value(text, name, 10)) is not None
    ]
    return (
        _line_value(b"\n" + text, b"\nrchar:", 10),
        max(written, default=None),
        _line_value(text, b"\nread_bytes:", 10),
    )


def parse_fd_limit(text: bytes) -> int | None:
    """Parse the soft limit of open files in /proc/<pid>/limits; None if unlimited or missing."""
    for line in text.splitlines():
        if line.startswith(b"Max open files"):
            soft = line[len(b"Max open files") :].split()[0]
            return int(soft) if soft.isdigit() else None
    return None


def parse_pss(text: bytes) -> int | None:
    """Parse the proportional share of anonymous memory in /proc/<pid>/smaps_rollup, in bytes.

    Before Linux 5.3 only the share of all memory is known, including mapped files that can be dropped.
    """
    anonymous = _kilobytes(text, b"\nPss_Anon:")
    return _kilobytes(text, b"\nPss:") if anonymous is None else anonymous


def _kilobytes(text: bytes, mark: bytes) -> int | None:
    at = text.find(mark)
    fields = text[at + len(mark) : at + len(mark) + 40].split() if at >= 0 else []
    return int(fields[0]) * 1024 if fields and fields[0].isdigit() else None


def _line_value(text: bytes, mark: bytes, base: int) -> int | None:
    at = text.find(mark)
    if at < 0:
        return None
    end = text.find(b"\n", at + 1)
    try:
        return int(text[at + len(mark) : end if end >= 0 else None], base)
    except ValueError:
        return None


def descriptors_to_keep() -> int:
    """Return how many files of /proc may stay open: half of this process's descriptors; rings need some.

    With seven files per process, 140 workers need about a thousand, which is the limit on many systems.
    """
    return descriptor_limit() // 2


class ProcessFiles:
    """The files of one /proc/<pid>. They stay open between readings while enough descriptors are free.

    An open file belongs to *its* process: once another process has the pid, reading fails (ESRCH).
    """

    _kept = 0  # open files of all instances together
    _may_keep: int | None = None

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self.pid = pid
        self._folder = f"{proc_root}/{pid}/"
        self._fds: dict[str, int] = {}

    def read(self, name: str) -> bytes | None:
        """Read a file of the process; return None if the process has ended or reading is not permitted."""
        try:
            fd = self._fds.get(name)
            if fd is not None:
                return os.pread(fd, 8192, 0)
            fd = os.open(self._folder + name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            keep = self._room()
            if keep:
                self._fds[name] = fd
                ProcessFiles._kept += 1
            try:
                return os.pread(fd, 8192, 0)
            finally:
                if not keep:
                    os.close(fd)
        except (OSError, AttributeError):  # AttributeError: no pread on Windows
            return None

    @classmethod
    def _room(cls) -> bool:
        if cls._may_keep is None:
            cls._may_keep = descriptors_to_keep()
        return cls._kept < cls._may_keep

    def stat(self) -> Stat | None:
        """Read ``stat``; return None if the process has ended."""
        text = self.read("stat")
        return parse_stat(text) if text else None

    def status(self) -> Status | None:
        """Read ``status``; return None if the process has ended."""
        text = self.read("status")
        return parse_status(text) if text else None

    def wchan(self) -> str | None:
        """Return the kernel function that the process sleeps in; None while it runs or if unknown."""
        text = self.read("wchan")
        return text.decode("ascii", "replace") if text and text != b"0" else None

    def io(self) -> tuple[int | None, int | None, int | None]:
        """Return ``(rchar, written, read_bytes)``: read and written by any means, and read from storage."""
        return parse_io(self.read("io") or b"")

    def run_delay_ns(self) -> int | None:
        """Return how long the main thread was ready without a CPU so far; None if it is not counted."""
        fields = (self.read("schedstat") or b"").split()
        return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else None

    def count_fds(self) -> int | None:
        """Count the open file descriptors."""
        try:
            return len(os.listdir(self._folder + "fd"))  # noqa: PTH208 - no Path per descriptor
        except OSError:
            return None

    def fd_limit(self) -> int | None:
        """Return how many descriptors the process may open."""
        text = self.read("limits")
        return parse_fd_limit(text) if text else None

    def pss_bytes(self) -> int | None:
        """Return the proportional set size. Call it rarely: the kernel walks all pages of the process."""
        text = self.read("smaps_rollup")
        return parse_pss(text) if text else None

    def close(self) -> None:
        """Close the files."""
        for fd in self._fds.values():
            os.close(fd)
        ProcessFiles._kept -= len(self._fds)
        self._fds.clear()


def started_after(stat: Stat, monotonic_ns: int, slack_ns: int = 1_000_000_000) -> bool:
    """Whether a process began after a monotonic instant; the pid then belonged to another process before.

    Start times count from boot and include suspends, which CLOCK_MONOTONIC does not.
    """
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return False
    boot_minus_monotonic = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
    start_ns = stat.start_ticks * 1_000_000_000 // CLOCK_TICKS
    return start_ns > monotonic_ns + boot_minus_monotonic + slack_ns
