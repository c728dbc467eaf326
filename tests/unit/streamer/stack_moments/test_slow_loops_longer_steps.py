"""When a training process is asked for the line of its model or optimizer that gets slower."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.stack_moments.budget import OF_A_PART_APART_NS, LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import LongerSteps

MS = 1_000_000


def asked(
    steps_ms: list[float],
    phase: Phase = Phase.FORWARD,
    *,
    alive: bool = True,
    cuda: bool = False,
    model: bool = True,
    in_step_ms: float = 1.0,
) -> list[int]:
    """The seconds in which rank 3 was asked, given its usual steps and an open step of ``in_step_ms``."""
    span = SimpleNamespace(phase=phase)
    main = SimpleNamespace(
        pid=7,
        alive=alive,
        ring=SimpleNamespace(span=lambda: span),
        info=SimpleNamespace(cuda=cuda, has_model=model),
    )
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: main})
    steps, found = LongerSteps(LastStacks()), []
    for second, step_ms in enumerate(steps_ms):
        usual_ns = {3: (0.0, step_ms * MS)}
        span.since_ns = second * SECOND_NS - in_step_ms * MS
        found += [second for _ in steps.due(roster, usual_ns, second * SECOND_NS)]
    return found


GROWS: list[float] = [20.0 + second for second in range(60)]


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER])
def test_it_is_asked_once_its_steps_take_twice_as_long(phase: Phase) -> None:
    seconds = asked(GROWS, phase)
    assert seconds[:3] == [20, 21, 22]
    assert len(seconds) < len(OF_A_PART_APART_NS)


def test_anywhere_in_a_step_where_no_model_is_watched() -> None:
    assert asked(GROWS, Phase.STEP, model=False)[0] == 20
    assert asked(GROWS, Phase.WAIT, model=False) == []


def test_a_step_that_is_long_by_itself_shows_nothing_of_those_that_grow() -> None:
    """One stall doubles the usual step for a moment."""
    assert asked(GROWS, Phase.STEP, model=False, in_step_ms=1500.0) == []


def test_it_is_asked_a_handful_of_times_an_hour() -> None:
    assert len(asked([20.0] + [50.0] * 3600)) == len(OF_A_PART_APART_NS)


@pytest.mark.parametrize(
    ("steps_ms", "fields"),
    [
        ([50.0] * 60, {}),
        (list(reversed(GROWS)), {}),
        ([1.0 + second / 20 for second in range(60)], {}),  # too short to tell from what the machine does
        (GROWS, {"phase": Phase.STEP}),
        (GROWS, {"alive": False}),
        (GROWS, {"cuda": True}),
    ],
)
def test_others_are_not(steps_ms: list[float], fields: dict[str, Any]) -> None:
    assert asked(steps_ms, **fields) == []
