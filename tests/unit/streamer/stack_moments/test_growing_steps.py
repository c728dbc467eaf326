"""When a training process whose steps have grown is asked for its stack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.stack_moments.growing_steps import GROWN_RATIO, LEAST_NS, GrowingSteps


def asked(*steps_ns: float, phase: Phase = Phase.STEP, alive: bool = True) -> list[int]:
    """The seconds in which rank 3 was asked, whose usual step was so long in each."""
    span = SimpleNamespace(phase=phase)
    main = SimpleNamespace(alive=alive, ring=SimpleNamespace(span=lambda: span))
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: main})
    steps, found = GrowingSteps(), []
    for second, step_ns in enumerate(steps_ns):
        found += [second for _ in steps.due(roster, {3: (0.0, step_ns)}, second * SECOND_NS)]
    return found


def test_it_is_asked_once_its_steps_have_grown() -> None:
    assert asked(LEAST_NS, GROWN_RATIO * LEAST_NS - 1, GROWN_RATIO * LEAST_NS) == [2]


def test_it_is_not_in_a_phase_of_the_model_nor_where_nothing_grew() -> None:
    assert asked(LEAST_NS, 3 * LEAST_NS, phase=Phase.BACKWARD) == []
    assert asked(3 * LEAST_NS, LEAST_NS, LEAST_NS) == []
    assert asked(LEAST_NS, 3 * LEAST_NS, alive=False) == []


def test_it_is_not_where_steps_are_over_in_a_moment() -> None:
    assert asked(LEAST_NS / 100, LEAST_NS / 2) == []
