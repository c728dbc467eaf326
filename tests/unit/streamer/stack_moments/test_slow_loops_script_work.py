"""When a training process is asked for the line of the script's own work."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.records import Phase
from loaderwatch.streamer.stack_moments.budget import OF_A_PART_APART_NS, LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import LOOKS, ScriptWork


def asked(
    *phases: Phase, alive: bool = True, model: bool = True, optimizer: bool = True, role: str = "train"
) -> list[int]:
    """The seconds in which rank 3 was asked, of looks that found it in these phases."""
    span = SimpleNamespace(phase=phases[0], loader=1)
    main = SimpleNamespace(
        pid=7,
        alive=alive,
        ring=SimpleNamespace(span=lambda: span),
        info=SimpleNamespace(
            has_model=model, has_optimizer=optimizer, loaders=[SimpleNamespace(loader=1, role=role)]
        ),
    )
    roster: Any = SimpleNamespace(newest_by_rank=lambda: {3: main})
    work, found = ScriptWork(LastStacks()), []
    for second, span.phase in enumerate(phases):
        found += [second for _ in work.due(roster, second * SECOND_NS)]
    return found


OWN_IN_THREE = [Phase.STEP, Phase.BACKWARD, Phase.FORWARD] * LOOKS


def test_it_is_asked_while_it_is_at_its_own_work() -> None:
    seconds = asked(*OWN_IN_THREE)
    assert seconds == [at for at in range(LOOKS - 1, len(OWN_IN_THREE)) if OWN_IN_THREE[at] is Phase.STEP]


def test_it_is_asked_a_handful_of_times_an_hour() -> None:
    assert len(asked(*[Phase.STEP] * 3600)) == len(OF_A_PART_APART_NS)


@pytest.mark.parametrize(
    ("phases", "fields"),
    [
        ([Phase.BACKWARD] * 3 * LOOKS, {}),
        ([Phase.STEP, *[Phase.FORWARD] * 4] * LOOKS, {}),  # the loss and a log line
        (OWN_IN_THREE, {"model": False}),  # all of a step would be its own
        (OWN_IN_THREE, {"optimizer": False}),
        (OWN_IN_THREE, {"alive": False}),
        (OWN_IN_THREE, {"role": "eval"}),  # a metric of the evaluation
    ],
)
def test_others_are_not(phases: list[Phase], fields: dict[str, Any]) -> None:
    assert asked(*phases, **fields) == []
