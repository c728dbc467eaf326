"""CPU time of a training process's main thread, and of its busiest thread that pins memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from loaderwatch.core.system import PROC
from loaderwatch.streamer.samplers.procfs import parse_stat

PIN_NAME: Final = "pt_data_pin"
"""PyTorch's name for the thread of each iterator that pins memory (pytorch#128448)."""


class ThreadTimes:
    """Reads some threads of one process. It reads each name twice, because a new thread has no name yet."""

    def __init__(self, pid: int, proc_root: Path = PROC) -> None:
        self._folder = proc_root / str(pid) / "task"
        self._main = str(pid)
        self._new: set[str] = set()  # thread ids
        self._others: set[str] = set()
        self._pinning: set[str] = set()
        self._cpu_ns: dict[str, int] = {}
        self._at_ns = 0

    def look(self, now_ns: int, *, pins: bool) -> tuple[float | None, float | None]:
        """Return CPU time per second since the last call: of the main and the busiest pin thread.

        A value is None if there is no such thread or it is new. ``pins``: threads that pin memory may exist.
        """
        if pins:
            self._find_pinning()
        cpu_ns = {
            tid: spent for tid in (self._main, *self._pinning) if (spent := self._spent(tid)) is not None
        }
        elapsed_ns = now_ns - self._at_ns
        previous_ns, self._cpu_ns, self._at_ns = self._cpu_ns, cpu_ns, now_ns
        ratios = {
            tid: (spent - previous_ns[tid]) / elapsed_ns
            for tid, spent in cpu_ns.items()
            if tid in previous_ns and elapsed_ns > 0
        }
        return ratios.pop(self._main, None), max(ratios.values(), default=None)

    def _find_pinning(self) -> None:
        try:
            threads = set(os.listdir(self._folder)) - {self._main}  # noqa: PTH208 - no Path per thread
        except OSError:
            threads = set()
        self._others &= threads
        self._pinning &= threads
        unknown = threads - self._others - self._pinning
        self._pinning |= {tid for tid in unknown if self._name(tid) == PIN_NAME}
        unknown -= self._pinning
        self._others |= unknown & self._new
        self._new = unknown - self._others

    def _name(self, thread: str) -> str | None:
        try:
            return (self._folder / thread / "comm").read_text(errors="replace").strip()
        except OSError:
            return None

    def _spent(self, thread: str) -> int | None:
        try:
            stat = parse_stat((self._folder / thread / "stat").read_bytes())
        except OSError:
            return None
        return stat.cpu_ns if stat else None
