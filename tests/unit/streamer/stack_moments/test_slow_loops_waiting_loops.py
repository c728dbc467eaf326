"""When a training process that waits for others is asked for its stack."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.streamer.roster import Roster
from loaderwatch.streamer.samplers.process import Reading
from loaderwatch.streamer.stack_moments.budget import LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import FEW_WAITS, WAITING_LOOKS, WaitingLoops


def asked(waits: list[float | None], *, in_step: bool = True) -> list[int]:
    """In which seconds rank 3 was asked, of looks that found it waiting (1) or not."""
    main = SimpleNamespace(pid=100, alive=True)
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: main})
    loops = WaitingLoops(LastStacks())
    return [
        second
        for second, value in enumerate(waits)
        if loops.due(
            cast("Roster", roster),
            {100: Reading("S", None, None, None, {"answer_wait": value})},
            lambda rank: 100 if in_step else None,
            second * SECOND_NS,
        )
    ]


def test_a_habit_is_asked_about_while_it_waits() -> None:
    assert asked([1.0, 0.0] * WAITING_LOOKS)[0] == 2 * (FEW_WAITS - 1)


def test_what_is_seldom_or_no_step_is_not() -> None:
    assert asked([1.0, *[0.0] * WAITING_LOOKS] * 3) == []
    assert asked([1.0] * WAITING_LOOKS, in_step=False) == []
    assert asked([None] * WAITING_LOOKS) == []
