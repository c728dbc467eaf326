"""What /proc says of a process that a benchmark looks at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass
class Process:
    """What /proc says of a process."""

    memory_bytes: int  # its own: anonymous, and of files
    shared_bytes: int  # of shared memory: rings it has read
    cpu_ratio: float
    fds: int
    threads: int


class Meter:
    """Looks at one process now and then."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._process.cpu_percent()

    def read(self) -> Process:
        """Since the last look."""
        kilobytes = {
            line.split(":")[0]: int(line.split()[1])
            for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
            if line.startswith("Rss")
        }
        return Process(
            memory_bytes=1024 * (kilobytes["RssAnon"] + kilobytes["RssFile"]),
            shared_bytes=1024 * kilobytes["RssShmem"],
            cpu_ratio=self._process.cpu_percent() / 100,
            fds=self._process.num_fds(),
            threads=self._process.num_threads(),
        )
