"""A stack in the low phases of a swing, and never more than a handful an hour."""

from __future__ import annotations

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.streamer.stack_moments.budget import APART_NS, HOUR_NS, LastStacks
from loaderwatch.streamer.stack_moments.slow_loops import SWING_NS, IdleGpus


def asked(ratios: list[float], *, every_ns: int = SECOND_NS // 10, in_step: bool = True) -> list[int]:
    """At which of these readings a stack is taken."""
    gpus = IdleGpus(LastStacks())
    return [
        number
        for number, ratio in enumerate(ratios)
        if gpus.due({3: ratio}, lambda rank: 7 if in_step and rank == 3 else None, number * every_ns)
    ]


def test_a_stack_is_taken_as_the_gpu_falls_idle_within_a_step() -> None:
    assert asked([0.95, 0.95, 0.4, 0.05, 0.02]) == [3]
    assert asked([0.95, 0.95, 0.4, 0.05], in_step=False) == []


def test_a_gpu_that_was_not_busy_does_not_swing() -> None:
    assert asked([0.0] * 50) == []
    assert asked([0.4, 0.05] * 20) == []
    late = SWING_NS // SECOND_NS + 2
    assert asked([0.95] + [0.3] * late + [0.0], every_ns=SECOND_NS) == []


def test_a_handful_an_hour_is_enough() -> None:
    hours = [0.95, 0.0] * 2700  # three hours, a swing each four seconds
    taken = [number * 2 for number in asked(hours, every_ns=2 * SECOND_NS)]
    hour_s = HOUR_NS // SECOND_NS
    assert max(sum(at <= one < at + hour_s for one in taken) for at in taken) == len(APART_NS)


def test_they_are_spread_over_the_hour() -> None:
    taken = [number * 2 for number in asked([0.95, 0.0] * 900, every_ns=2 * SECOND_NS)]
    assert [round((later - taken[0]) / 60) for later in taken] == [0, 0, 5, 15, 30, 50]


def test_a_later_swing_gets_one_at_its_beginning() -> None:
    first, calm, second = [0.95, 0.0] * 30, [0.95] * 300, [0.95, 0.0] * 30
    taken = asked(first + calm + second, every_ns=2 * SECOND_NS)
    assert taken[2:] == [len(first) + len(calm) + 1]
