"""Which workers are asked for their stacks, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import LONG_WAIT_NS, LastStacks
from loaderwatch.streamer.stack_moments.locked_workers import LOOKS, MOST_ASKED, LockedWorkers

STARVED = {3: (0.5e9, 0.1e9)}


def reading(**values: float) -> Reading:
    return Reading("S", None, None, None, {"lock_wait": 0.0, "timer_wait": 0.0, "answer_wait": 0.0, **values})


LOCKED, ASLEEP, READS = reading(lock_wait=1.0), reading(timer_wait=1.0), reading()
ASKS = reading(answer_wait=1.0)


def asked(
    readings: list[Reading],
    usual: dict[int, tuple[float, float]],
    looks: int = LOOKS,
    waited_ns: int = 0,
    phase: Phase = Phase.FETCH,
) -> list[tuple[int, frozenset[int]]]:
    """Of one rank with so many workers, in all these looks."""
    span = SimpleNamespace(phase=Phase.WAIT, since_ns=0)
    of_main, of_worker = (
        SimpleNamespace(span=lambda one=one: one) for one in (span, SimpleNamespace(phase=phase))
    )
    members = [
        SimpleNamespace(
            pid=100 + worker, worker=worker, alive=True, ring=of_worker if worker >= 0 else of_main
        )
        for worker in range(-1, len(readings))
    ]
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: members[0]}, of_rank=lambda rank: members)
    locked = LockedWorkers(LastStacks())
    by_pid = {100 + worker: one for worker, one in enumerate(readings)}
    found = []
    for second in range(looks):
        span.since_ns = second * SECOND_NS - waited_ns
        found += locked.due(cast("Roster", roster), by_pid, usual, second * SECOND_NS)
    return found


@pytest.mark.parametrize("waits", [LOCKED, ASLEEP, ASKS])
def test_those_that_wait_are_asked(waits: Reading) -> None:
    assert asked([waits, READS, waits], STARVED) == [(3, frozenset({100, 102}))]
    assert asked([waits, READS, waits], STARVED, LOOKS - 1) == []


def test_those_that_wait_for_their_next_indices_are_not() -> None:
    assert asked([ASKS] * 3, STARVED, phase=Phase.IDLE) == []


def test_all_of_them_are_asked_in_a_single_long_wait() -> None:
    well = {3: (0.001e9, 0.1e9)}
    assert asked([LOCKED, ASLEEP], well, 1, LONG_WAIT_NS) == [(3, frozenset({100, 101}))]
    assert asked([LOCKED, READS], well, LOOKS, LONG_WAIT_NS) == []
    assert asked([LOCKED, ASLEEP], well, LOOKS, LONG_WAIT_NS - 1) == []


def test_never_more_than_a_few_at_a_time() -> None:
    assert [len(pids) for _, pids in asked([LOCKED] * 14, STARVED)] == [MOST_ASKED]


@pytest.mark.parametrize(
    ("readings", "usual"),
    [
        ([READS] * 4, STARVED),  # a disk or the network
        ([LOCKED, READS, READS, READS], STARVED),
        ([LOCKED] * 4, {3: (0.001e9, 0.1e9)}),  # the loop waits for nothing
        ([LOCKED] * 4, {}),
        ([LOCKED], STARVED),  # a lone worker shares with nobody
    ],
)
def test_others_are_not(readings: list[Reading], usual: dict[int, tuple[float, float]]) -> None:
    assert asked(readings, usual, 30) == []
