"""The runs of a job: those for which its processes write rings on this host."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

_MAIN_RING: Final = re.compile(r"main-(\d+)\.ring")


class JobRuns:
    """The runs that a job's processes record, as they appear: a script may name its run or train several."""

    def __init__(self, rings_dir: Path, pid: int, known: Sequence[str] = ()) -> None:
        """Start with the known runs; ``pid`` is the job's first process."""
        self._rings_dir = rings_dir
        self._pid = pid
        self._strangers: set[tuple[str, int]] = set()  # rings of other jobs, by (run, pid)
        self._processes: dict[tuple[str, int], psutil.Process] = {}
        self.ids = list(known)

    @property
    def seen(self) -> bool:
        """Whether a process of the job was ever seen recording."""
        return bool(self._processes)

    def refresh(self) -> None:
        """Look for rings of the job's processes."""
        try:
            folders = [Path(entry.path) for entry in os.scandir(self._rings_dir) if entry.is_dir()]
        except OSError:
            return  # nothing was watched on this host yet
        for folder in folders:
            for ring in self._rings(folder):
                if ring not in self._strangers and ring not in self._processes:
                    self._place(*ring)

    def has_one_since(self, run_id: str, at: float) -> bool:
        """Whether a living training process of the run on this host was already there at a time (UTC, s)."""
        return any(
            process.is_running() and process.create_time() <= at
            for (run, _), process in self._processes.items()
            if run == run_id
        )

    @staticmethod
    def _rings(folder: Path) -> list[tuple[str, int]]:
        try:
            matches = [_MAIN_RING.fullmatch(n) for n in os.listdir(folder)]  # noqa: PTH208 - names suffice
        except OSError:
            return []
        return [(folder.name, int(match[1])) for match in matches if match is not None]

    def _place(self, run_id: str, pid: int) -> None:
        try:
            process = psutil.Process(pid)
            ours = pid == self._pid or any(parent.pid == self._pid for parent in process.parents())
        except psutil.Error:
            return  # it has ended, and its ring goes too
        if not ours:
            self._strangers.add((run_id, pid))
            return
        self._processes[run_id, pid] = process
        if run_id not in self.ids:
            self.ids.append(run_id)
