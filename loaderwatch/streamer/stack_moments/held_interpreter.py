"""When a stack of a training process is worth its signal: while another of its threads seems to hold the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.facts import HELD_RATIO, INTERPRETER_HELD, WOKEN_PER_S
from loaderwatch.core.records import Values
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import OF_ONE_APART_NS, LastStacks, StackBudget

FEW_SECONDS: Final = 3
"""So many in a row are of that kind."""


class HeldInterpreter:
    """Follows how the training thread of each rank runs beside the other threads of its process."""

    def __init__(self, last: LastStacks) -> None:
        self._woken: dict[int, tuple[float, int]] = {}  # by pid: its switches so far, and when that was
        self._seconds: dict[int, int] = {}  # by pid: how many in a row
        self._budget = StackBudget(last, INTERPRETER_HELD, OF_ONE_APART_NS)

    def due(self, roster: Roster, readings: Mapping[int, Reading], now_ns: int) -> list[int]:
        """Return the ranks of which a stack should be taken now, and count it as taken.

        Args:
            roster: the processes of the run on this host.
            readings: of this second, by pid.
            now_ns: monotonic.
        """
        found = []
        for rank, main in roster.newest_by_rank().items():
            reading = readings.get(main.pid)
            if reading is None or not main.alive:
                self._woken.pop(main.pid, None)
                self._seconds.pop(main.pid, None)
                continue
            held = self._held(main.pid, reading.values, now_ns)
            self._seconds[main.pid] = self._seconds.get(main.pid, 0) + 1 if held else 0
            if self._seconds[main.pid] >= FEW_SECONDS and self._budget.take(rank, [main.pid], now_ns):
                found.append(rank)
        return found

    def _held(self, pid: int, values: Values, now_ns: int) -> bool:
        switches = values.get("voluntary_switches")
        before = self._woken.pop(pid, None)
        if switches is None:
            return False
        self._woken[pid] = switches, now_ns
        whole, main = values.get("cpu_ratio"), values.get("main_cpu_ratio")
        if before is None or now_ns <= before[1] or whole is None or main is None:
            return False
        blocked = 1 - main - (values.get("run_delay_ratio") or 0.0)
        woken = (switches - before[0]) * SECOND_NS / (now_ns - before[1])
        return blocked >= HELD_RATIO and whole - main >= HELD_RATIO and woken >= WOKEN_PER_S * blocked
