"""When a training process without a loader is asked for its stack."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.stack_moments.budget import OF_ONE_APART_NS, LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import StepLoops


def asked(
    *phases: Phase,
    alone: bool = True,
    wait_ns: float = 6e7,
    alive: bool = True,
    info: bool = True,
    since_s: Callable[[int], float] = lambda now: now - 0.01,
) -> list[int]:
    """The seconds in which rank 3 was asked, when found in these phases, which began at ``since_s``."""
    now = 0

    def span() -> SimpleNamespace:
        return SimpleNamespace(phase=phases[now], since_ns=int(since_s(now) * SECOND_NS))

    main = SimpleNamespace(
        pid=7,
        alive=alive,
        info=SimpleNamespace(trains_without_loader=alone) if info else None,
        ring=SimpleNamespace(span=span),
    )
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: main})
    loops, found = StepLoops(LastStacks()), []
    for now in range(len(phases)):
        found += [now for _ in loops.due(roster, {3: (wait_ns, 1e8)}, now * SECOND_NS)]
    return found


def test_it_is_asked_between_two_steps_and_seldom() -> None:
    again = OF_ONE_APART_NS[4] // SECOND_NS
    assert asked(Phase.STEP, *[Phase.OUTSIDE] * (again + 10)) == [1, 2, 3, 4, 4 + again]


@pytest.mark.parametrize(
    "fields", [{"alone": False}, {"wait_ns": 1e6}, {"alive": False}, {"info": False}], ids=str
)
def test_what_is_well_or_no_such_loop_is_not(fields: dict[str, Any]) -> None:
    assert asked(*[Phase.OUTSIDE] * 10, **fields) == []


def test_a_long_one_is_asked_once_though_the_usual_one_is_short() -> None:
    """Four seconds every ten, as when something does not answer."""

    def since_s(now: int) -> float:
        return now - now % 10 - 0.5

    phases = [Phase.OUTSIDE if now % 10 < 4 else Phase.STEP for now in range(30)]
    assert asked(*phases, wait_ns=1e6, since_s=since_s) == [0, 10, 20]
