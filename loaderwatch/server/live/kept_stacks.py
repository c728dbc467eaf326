"""The stacks that are kept of a rank: the newest of each process, and those that were taken of what is soon over."""

from __future__ import annotations

from loaderwatch.core.facts import GPU_IDLE, LOCK_WAIT, StackDump

MOST_PROCESSES = 128
MOST_PASSING = 6
"""Of each reason: low phases of the GPU, and waits of workers for a lock. They are few, and no other kind replaces them."""


class KeptStacks:
    """Takes the stacks of one rank in any order."""

    def __init__(self) -> None:
        self._newest: dict[int, StackDump] = {}  # by pid, the one that came last at the end
        self._passing: dict[str, list[StackDump]] = {GPU_IDLE: [], LOCK_WAIT: []}  # oldest first

    @property
    def newest(self) -> list[StackDump]:
        """Return the newest stack of each process."""
        return list(self._newest.values())

    @property
    def idle(self) -> list[StackDump]:
        """Return the newest stacks of low phases of the GPU, oldest first."""
        return list(self._passing[GPU_IDLE])

    @property
    def locked(self) -> list[StackDump]:
        """Return the newest stacks of workers that waited for a lock or slept while the loop waited, oldest first."""
        return list(self._passing[LOCK_WAIT])

    @property
    def held_bytes(self) -> int:
        """Return the memory that they take."""
        return sum(len(stack.text) for stack in (*self._newest.values(), *self.idle, *self.locked))

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
