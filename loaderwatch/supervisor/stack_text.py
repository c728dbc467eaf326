"""The API's stacks as text for a terminal or a file."""

from __future__ import annotations

import time
from collections.abc import Iterable

from loaderwatch.core.answers import Param, Stack
from loaderwatch.core.printable import printable
from loaderwatch.texts import in_own_language


def process_of(stack: Stack) -> dict[str, Param]:
    """Return the parameters of the message ``process-of-rank``: "rank 0, worker 1 (pid 4711)"."""
    return {"rank": stack.rank, "worker": None if stack.worker < 0 else stack.worker, "pid": stack.pid}


def taken_clock(stack: Stack) -> str:
    """Return the time of the stack by this machine's clock and time zone."""
    return time.strftime("%H:%M:%S", time.localtime(stack.taken_at))


def in_order(stacks: Iterable[Stack]) -> list[Stack]:
    """Return stacks by rank, each rank's training process before its workers."""
    return sorted(stacks, key=lambda stack: (stack.rank, stack.worker))


def stacks_text(stacks: Iterable[Stack]) -> str:
    """Return the stacks in order, each with its head; an empty stack shows its reason."""
    return "\n\n".join(map(_text, in_order(stacks)))


def _text(stack: Stack) -> str:
    body = printable(stack.text).strip("\n") or stack.why or in_own_language("no-stack-came")
    head = f"{in_own_language('process-of-rank', **process_of(stack))}, {taken_clock(stack)}"
    return "\n".join([head, *(f"  {line}" for line in body.splitlines())])
