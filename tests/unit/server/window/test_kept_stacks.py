"""Stacks of low phases stay, whatever comes after them."""

from __future__ import annotations

from loaderwatch.core.facts import GPU_IDLE, LOCK_WAIT, LONG_STEP, StackDump
from loaderwatch.server.window.kept_stacks import MOST_PASSING, MOST_PROCESSES, KeptStacks


def dump(taken_ns: int, why: str, pid: int = 1, text: str = "text") -> StackDump:
    return StackDump(rank=0, worker=-1, pid=pid, taken_ns=taken_ns, text=text, why=why)


def test_a_long_step_or_a_request_takes_no_stack_of_a_low_phase_away() -> None:
    kept = KeptStacks()
    for stack in (dump(5, GPU_IDLE), dump(7, LONG_STEP), dump(9, "requested"), dump(6, GPU_IDLE)):
        kept.take(stack)
    assert [stack.taken_ns for stack in kept.passing[GPU_IDLE]] == [5, 6]
    assert [stack.taken_ns for stack in kept.newest] == [9]
    assert kept.held_bytes == 3 * len("text")


def test_they_are_few_and_have_a_text() -> None:
    kept = KeptStacks()
    for taken_ns in range(10):
        kept.take(dump(taken_ns, GPU_IDLE))
    kept.take(dump(99, GPU_IDLE, text=""))
    assert [stack.taken_ns for stack in kept.passing[GPU_IDLE]] == list(range(10 - MOST_PASSING, 10))
    for pid in range(2 * MOST_PROCESSES):
        kept.take(dump(100, "requested", pid))
    assert len(kept.newest) == MOST_PROCESSES


def test_waiting_workers_and_low_phases_do_not_take_each_others_place() -> None:
    kept = KeptStacks()
    for taken_ns in range(10):
        kept.take(dump(taken_ns, LOCK_WAIT, pid=taken_ns))
    kept.take(dump(20, GPU_IDLE))
    assert [stack.taken_ns for stack in kept.passing[LOCK_WAIT]] == list(range(10 - MOST_PASSING, 10))
    assert [stack.taken_ns for stack in kept.passing[GPU_IDLE]] == [20]
