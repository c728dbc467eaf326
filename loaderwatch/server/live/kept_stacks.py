"""The stacks that are kept of a rank: the newest of each process, and those that were taken while its GPU idled."""

from __future__ import annotations

from loaderwatch.core.facts import GPU_IDLE, StackDump

MOST_PROCESSES = 128
MOST_IDLE = 6


class KeptStacks:
    """Takes the stacks of one rank in any order."""

    def __init__(self) -> None:
        self._newest: dict[int, StackDump] = {}  # by pid, the one that came last at the end
        self._idle: list[StackDump] = []  # oldest first

    @property
    def newest(self) -> list[StackDump]:
        """Return the newest stack of each process."""
        return list(self._newest.values())

    @property
    def idle(self) -> list[StackDump]:
        """Return the newest stacks of low phases of the GPU, oldest first; they are few, and no other kind replaces them."""
        return list(self._idle)

    @property
    def held_bytes(self) -> int:
        """Return the memory that they take."""
        return sum(len(stack.text) for stack in (*self._newest.values(), *self._idle))

    def take(self, stack: StackDump) -> None:
        """Keep a stack in place of older ones."""
        if stack.why == GPU_IDLE and stack.text:
            self._idle = sorted([*self._idle, stack], key=lambda each: each.taken_ns)[-MOST_IDLE:]
        known = self._newest.get(stack.pid)
        if known is not None and known.taken_ns > stack.taken_ns:
            return
        self._newest.pop(stack.pid, None)
        self._newest[stack.pid] = stack
        while len(self._newest) > MOST_PROCESSES:
            del self._newest[next(iter(self._newest))]
