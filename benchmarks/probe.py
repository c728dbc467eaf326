"""A rank whose every step is timed on its way."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Final

from loaderwatch.core.facts import ProcessInfo
from loaderwatch.core.records import RECORD_FIELDS, RecordKind
from loaderwatch.core.ring import RingReader

_STEP: Final = {name: i for i, name in enumerate(RECORD_FIELDS[RecordKind.STEP])}


class Probe:
    """A rank whose every step is timed. Reads its ring as the streamer does, with a cursor of its own."""

    def __init__(self, folder: Path, info: ProcessInfo) -> None:
        self.rank = info.rank
        self._ring = RingReader(folder / f"main-{info.pid}.ring")
        self.key = f"main-{info.pid}@{self._ring.identity.created_ns}"
        self._cursor = 0
        self._unacknowledged: deque[tuple[int, float]] = deque()  # record, when its step ended
        self._unseen: deque[tuple[int, float]] = deque()  # step, the same

    def read(self) -> None:
        """Take note of the steps that ended."""
        while True:
            drained = self._ring.drain(self._cursor, limit=1)
            if drained.cursor == self._cursor:
                return
            self._cursor = drained.cursor
            for step in drained.records.get(RecordKind.STEP, ()):
                ended_s = (step[_STEP["request_ns"]] + step[_STEP["wait_ns"]] + step[_STEP["step_ns"]]) / 1e9
                self._unacknowledged.append((drained.cursor, ended_s))
                self._unseen.append((step[_STEP["step"]] + 1, ended_s))

    def acknowledged(self, cursor: int, now_s: float) -> list[float]:
        """Ages of the steps that this cursor covers."""
        return _pass(self._unacknowledged, cursor, now_s)

    def shown(self, steps: int, now_s: float) -> list[float]:
        """Ages of the steps that a page with this count shows."""
        return _pass(self._unseen, steps, now_s)


def _pass(waiting: deque[tuple[int, float]], until: int, now_s: float) -> list[float]:
    ages = []
    while waiting and waiting[0][0] <= until:
        ages.append(now_s - waiting.popleft()[1])
    return ages
