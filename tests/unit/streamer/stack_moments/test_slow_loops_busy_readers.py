"""Which processes are asked for the line at which they read samples, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import APART_NS, LONG_WAIT_NS, LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import MOST_ASKED, BusyReaders

STARVED, WELL = (0.5e9, 0.1e9), (0.0, 0.1e9)
MAIN, OTHER = 50, 70
"""The training process, and a worker of another loader."""


def asked(
    states: str,
    usual: tuple[float, float] = STARVED,
    *,
    phase: Phase = Phase.WAIT,
    waited_ns: int = 0,
    awaited: int = 1,
    main: str = "S",
    alive: bool = True,
    seconds: int = 1,
    later: tuple[str, ...] = (),
) -> list[tuple[int, set[int]]]:
    """When rank 3 was asked, and which pids. Its workers (100, 101, …) have ``states``, then ``later``."""

    def member(pid: int, worker: int, loader: int) -> Any:
        ring = SimpleNamespace(identity=SimpleNamespace(loader=loader), span=lambda: span)
        return SimpleNamespace(pid=pid, worker=worker, alive=alive, ring=ring)

    span = SimpleNamespace(phase=phase, since_ns=0, loader=0, awaited_worker=awaited)
    workers = [member(100 + worker, worker, 0) for worker in range(len(states))]
    members = [member(MAIN, -1, -1), *workers, member(OTHER, awaited, 1)]
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: members[0]}, of_rank=lambda rank: members)
    readings = {
        pid: Reading(state, None, None, None, {})
        for pid, state in [(MAIN, main), (OTHER, "R"), *((100 + at, one) for at, one in enumerate(states))]
    }
    readers, found = BusyReaders(LastStacks()), []
    for second in range(seconds):
        if second and later:
            readings |= {100 + at: Reading(one, None, None, None, {}) for at, one in enumerate(later)}
        now_ns = second * SECOND_NS + waited_ns
        span.since_ns = second * SECOND_NS
        found += [(second, set(pids)) for _, pids in readers.due(roster, readings, {3: usual}, now_ns)]
    return found


def test_workers_that_compute_are_asked_where_the_loop_waits_at_each_step() -> None:
    assert asked("RSR") == [(0, {100, 102})]


def test_never_more_than_a_few_at_a_time_and_the_awaited_one_first() -> None:
    ((_, pids),) = asked("R" * 8, awaited=7)
    assert len(pids) == MOST_ASKED
    assert 107 in pids


def test_a_handful_an_hour() -> None:
    again = APART_NS[1] // SECOND_NS
    assert [second for second, _ in asked("RR", seconds=again + 20)] == [0, again]


def test_in_a_single_long_wait_only_the_awaited_worker_is_asked() -> None:
    assert asked("RR", WELL, waited_ns=LONG_WAIT_NS) == [(0, {101})]
    assert asked("RS", WELL, waited_ns=LONG_WAIT_NS) == []
    assert asked("RR", WELL, waited_ns=LONG_WAIT_NS - 1) == []


def test_where_no_worker_computes_the_training_process_may() -> None:
    assert asked("SS", main="R") == [(0, {MAIN})]
    assert asked("SR", main="R") == [(0, {101})]


def test_what_workers_were_asked_takes_nothing_from_it() -> None:
    """At the start of a run a worker reads and is waited for, whatever is slow later."""
    assert asked("R", main="R", seconds=3, later=("S",)) == [(0, {100}), (1, {MAIN})]


def test_without_workers_the_training_process_reads() -> None:
    assert asked("", main="R") == [(0, {MAIN})]
    assert asked("", main="D") == []


@pytest.mark.parametrize(
    "fields",
    [{"phase": Phase.STEP}, {"usual": WELL}, {"alive": False}, {"states": "SDS"}],
    ids=str,
)
def test_others_are_not(fields: dict[str, Any]) -> None:
    assert asked(**{"states": "RRR", **fields}) == []
