"""Other workers for a training process that stands still: its other threads and its child processes.

Only they tell a process that waits for a working child from one whose child waits as well.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from loaderwatch.core.records import Values
from loaderwatch.core.system import PROC
from loaderwatch.streamer.samplers.procfs import Stat, parse_stat, parse_status

MOST_THREADS: Final = 512
MOST_CHILDREN: Final = 256
NOT_LOOKED: Final[Values] = dict.fromkeys(
    ("threads_switches_per_s", "children_switches_per_s", "children_cpu_ratio", "children_ended")
)


@dataclass(frozen=True, slots=True)
class _Count:
    """What a thread or process has done so far."""

    cpu_ns: int
    switches: int
    has_ended: bool = False  # a zombie: its parent has not waited for it


_Key = tuple[str, int]
"""Pid or thread id, and its start time."""


class ChildrenSampler:
    """Reads the threads and descendants of one process and keeps the last values to compute rates."""

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self._pid = str(pid)
        self._root = proc_root
        self._threads: dict[_Key, _Count] = {}
        self._children: dict[_Key, _Count] | None = None
        self._at_ns: int | None = None

    def look(self, now_ns: int, apart: Collection[int]) -> Values:
        """Return the activity per second since the last call; rates are missing in the first call.

        ``apart``: descendants that are reported elsewhere, the loaders' workers.
        """
        threads = dict(
            self._each(f"{self._pid}/task/{task}" for task in self._tasks(self._pid) if task != self._pid)
        )
        descendants = self._descendants({str(pid) for pid in apart})
        children = None if descendants is None else dict(self._each(descendants))
        previous = (self._threads, self._children, self._at_ns)
        self._threads, self._children, self._at_ns = threads, children, now_ns
        values: Values = dict(NOT_LOOKED)
        if children is not None:
            values["children_ended"] = float(sum(count.has_ended for count in children.values()))
        if previous[2] is None or now_ns <= previous[2]:
            return values
        elapsed_ns = now_ns - previous[2]
        values["threads_switches_per_s"] = _most(threads, previous[0]) * 1e9 / elapsed_ns
        if children is not None and previous[1] is not None:
            values["children_switches_per_s"] = _most(children, previous[1]) * 1e9 / elapsed_ns
            values["children_cpu_ratio"] = _spent_ns(children, previous[1]) / elapsed_ns
        return values

    def _tasks(self, pid: str) -> list[str]:
        try:
            return os.listdir(self._root / pid / "task")[:MOST_THREADS]  # noqa: PTH208 - no Path per thread
        except OSError:
            return []

    def _descendants(self, apart: Collection[str]) -> list[str] | None:
        """Return the pids of all descendants; None if the kernel does not list children."""
        descendants: list[str] = []
        waiting = [self._pid]
        while waiting and len(descendants) < MOST_CHILDREN:
            pid = waiting.pop()
            own = self._children_of(pid)
            if own is None and pid == self._pid:
                return None
            new = [child for child in own or () if child not in apart]
            descendants += new
            waiting += new
        return descendants

    def _children_of(self, pid: str) -> list[str] | None:
        """Return the children of a process; the kernel lists each under the thread that started it."""
        known = False
        children: list[str] = []
        for task in self._tasks(pid):
            try:
                children += (self._root / pid / "task" / task / "children").read_text().split()
                known = True
            except OSError:
                continue
        return children if known else None

    def _each(self, names: Iterator[str] | list[str]) -> Iterator[tuple[_Key, _Count]]:
        for name in names:
            try:
                stat: Stat | None = parse_stat((self._root / name / "stat").read_bytes())
                status = parse_status((self._root / name / "status").read_bytes())
            except OSError:
                continue  # it has ended
            if stat is not None:
                yield (
                    (name, stat.start_ticks),
                    _Count(stat.cpu_ns, status.voluntary_switches or 0, stat.state == "Z"),
                )


_NOTHING: Final = _Count(0, 0)


def _most(now: dict[_Key, _Count], before: dict[_Key, _Count]) -> int:
    """Return the most voluntary switches of any thread or process; new ones count from their start."""
    return max((count.switches - before.get(key, _NOTHING).switches for key, count in now.items()), default=0)


def _spent_ns(now: dict[_Key, _Count], before: dict[_Key, _Count]) -> int:
    return sum(count.cpu_ns - before.get(key, _NOTHING).cpu_ns for key, count in now.items())
