"""When a training process is asked who keeps its training thread from running."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Values
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import OF_ONE_APART_NS, LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import FEW_SECONDS, HeldInterpreter

HELD: Values = {"cpu_ratio": 0.55, "main_cpu_ratio": 0.15, "run_delay_ratio": 0.35}


def asked(values: Values, woken_per_s: int | None, seconds: int = 20, *, alive: bool = True) -> list[int]:
    """In which seconds rank 3 was asked, of looks that all found the same."""
    main = SimpleNamespace(pid=100, alive=alive)
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: main})
    held, found = HeldInterpreter(LastStacks()), []
    for second in range(seconds):
        switches = None if woken_per_s is None else second * woken_per_s
        reading = Reading("S", None, None, None, {**values, "voluntary_switches": switches})
        found += [second for _ in held.due(roster, {100: reading}, second * SECOND_NS)]
    return found


def test_a_thread_that_asks_for_the_lock_again_and_again_is_asked_who_has_it() -> None:
    assert asked(HELD, 160)[0] == FEW_SECONDS
    assert len(asked(HELD, 160, 100)) < len(OF_ONE_APART_NS)


def test_one_that_runs_waits_or_is_alone_is_not() -> None:
    assert asked(HELD, 5) == []  # it waits for something else
    assert asked({**HELD, "main_cpu_ratio": 0.55}, 160) == []  # nobody else computes
    assert asked({**HELD, "run_delay_ratio": 0.8}, 160) == []  # it lacks a CPU
    assert asked({**HELD, "main_cpu_ratio": None}, 160) == []
    assert asked(HELD, None) == []
    assert asked(HELD, 160, alive=False) == []
