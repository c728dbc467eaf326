"""The stacks that are kept of a rank: the newest of each process, and those that were taken of what is soon over."""

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
"""Of each reason in ``PASSING``. They are few, and no other kind replaces them."""
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
"""Why stacks are taken of what is over in a moment and comes again."""


class KeptStacks:
    """Takes the stacks of one rank in any order."""

    def __init__(self) -> None:
        self._newest: dict[int, StackDump] = {}  # by pid, the one that came last at the end
        self._passing: dict[str, list[StackDump]] = {why: [] for why in PASSING}  # oldest first

    @property
    def newest(self) -> list[StackDump]:
        """Return the newest stack of each process."""
        return list(self._newest.values())

    @property
    def passing(self) -> dict[str, list[StackDump]]:
        """Return the newest stacks of each reason in ``PASSING``, oldest first."""
        return {why: list(kept) for why, kept in self._passing.items()}

    @property
    def held_bytes(self) -> int:
        """Return the memory that they take."""
        return sum(
            len(stack.text) for kept in (self._newest.values(), *self._passing.values()) for stack in kept
        )

    def take(self, stack: StackDump) -> None:
        """Keep a stack in place of older ones."""
        kept = self._passing.get(stack.why)
        if kept is not None and stack.text:
            kept.append(stack)
            kept.sort(key=lambda each: each.taken_ns)
            del kept[:-MOST_PASSING]
        known = self._newest.get(stack.pid)
        if known is not None and known.taken_ns > stack.taken_ns:
            return
        self._newest.pop(stack.pid, None)
        self._newest[stack.pid] = stack
        while len(self._newest) > MOST_PROCESSES:
            del self._newest[next(iter(self._newest))]
