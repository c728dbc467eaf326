"""When to take a training process's stack: another of its threads seems to hold the interpreter."""

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
"""Seconds in a row in which the interpreter must seem to be held."""


class HeldInterpreter:
    """Compares the training thread of each rank with the other threads of its process."""

    def __init__(self, last: LastStacks) -> None:
        self._woken: dict[int, tuple[float, int]] = {}  # by pid: its context switches so far, and the time
        self._seconds: dict[int, int] = {}  # by pid: seconds in a row
        self._budget = StackBudget(last, INTERPRETER_HELD, OF_ONE_APART_NS)

    def due(self, roster: Roster, readings: Mapping[int, Reading], now_ns: int) -> list[int]:
        """Return the ranks to take a stack of now, and count the stacks as taken.

        Args:
            roster: the processes of the run on this host.
            readings: this second's readings, by pid.
            now_ns: monotonic.
        """
        due_ranks = []
        for rank, main in roster.newest_by_rank().items():
            reading = readings.get(main.pid)
            if reading is None or not main.alive:
                self._woken.pop(main.pid, None)
                self._seconds.pop(main.pid, None)
                continue
            held = self._held(main.pid, reading.values, now_ns)
            self._seconds[main.pid] = self._seconds.get(main.pid, 0) + 1 if held else 0
            if self._seconds[main.pid] >= FEW_SECONDS and self._budget.take(rank, [main.pid], now_ns):
                due_ranks.append(rank)
        return due_ranks

    def _held(self, pid: int, values: Values, now_ns: int) -> bool:
        switches = values.get("voluntary_switches")
        previous = self._woken.pop(pid, None)
        if switches is None:
            return False
        self._woken[pid] = switches, now_ns
        whole, main = values.get("cpu_ratio"), values.get("main_cpu_ratio")
        if previous is None or now_ns <= previous[1] or whole is None or main is None:
            return False
        blocked = 1 - main - (values.get("run_delay_ratio") or 0.0)
        woken = (switches - previous[0]) * SECOND_NS / (now_ns - previous[1])
        return blocked >= HELD_RATIO and whole - main >= HELD_RATIO and woken >= WOKEN_PER_S * blocked
