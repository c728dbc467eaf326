"""The stacks that are kept per rank: each process's newest, and the newest of short events."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.facts import (
    ANSWER_WAIT,
    AT_WORK,
    BETWEEN_STEPS,
    GPU_IDLE,
    INTERPRETER_HELD,
    LOCK_WAIT,
    LONGER_STEP,
    SCRIPT_WORK,
    StackDump,
)

MOST_PROCESSES = 128
MOST_PASSING = 6
"""Stacks per reason in ``PASSING``. They are rare, and stacks of other kinds do not replace them."""
PASSING: Final = (
    GPU_IDLE,
    LOCK_WAIT,
    ANSWER_WAIT,
    BETWEEN_STEPS,
    AT_WORK,
    SCRIPT_WORK,
    LONGER_STEP,
    INTERPRETER_HELD,
)
"""Reasons for stacks of events that are over in a moment and come again."""


class KeptStacks:
    """Takes the stacks of one rank in any order."""

    def __init__(self) -> None:
        self._newest: dict[int, StackDump] = {}  # by pid; the last to arrive is last
        self._passing: dict[str, list[StackDump]] = {why: [] for why in PASSING}  # oldest first

    @property
    def newest(self) -> list[StackDump]:
        """Return the newest stack of each process."""
        return list(self._newest.values())

    @property
    def passing(self) -> dict[str, list[StackDump]]:
        """Return the newest stacks of each reason in ``PASSING``, oldest first."""
        return {why: list(stacks) for why, stacks in self._passing.items()}

    @property
    def held_bytes(self) -> int:
        """Return the memory of the stacks."""
        return sum(
            len(stack.text) for stacks in (self._newest.values(), *self._passing.values()) for stack in stacks
        )

    def take(self, stack: StackDump) -> None:
        """Keep a stack instead of older ones."""
        kept = self._passing.get(stack.why)
        if kept is not None and stack.text:
            kept.append(stack)
            kept.sort(key=lambda each: each.taken_ns)
            del kept[:-MOST_PASSING]
        newest = self._newest.get(stack.pid)
        if newest is not None and newest.taken_ns > stack.taken_ns:
            return
        self._newest.pop(stack.pid, None)
        self._newest[stack.pid] = stack
        while len(self._newest) > MOST_PROCESSES:
            del self._newest[next(iter(self._newest))]
