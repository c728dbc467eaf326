"""A stack in the low phases of a swing, and never more than a handful an hour."""

from __future__ import annotations

from itertools import pairwise

from loaderwatch.streamer.idle_gpu import HOUR_NS, MOST_AN_HOUR, SECOND, SWING_NS, IdleGpus


def asked(ratios: list[float], *, every_ns: int = SECOND // 10, in_step: bool = True) -> list[int]:
    """At which of these readings a stack is taken."""
    gpus = IdleGpus()
    return [
        number
        for number, ratio in enumerate(ratios)
        if gpus.due({3: ratio}, lambda rank: in_step and rank == 3, number * every_ns)
    ]


def test_a_stack_is_taken_as_the_gpu_falls_idle_within_a_step() -> None:
    assert asked([0.95, 0.95, 0.4, 0.05, 0.02]) == [3]
    assert asked([0.95, 0.95, 0.4, 0.05], in_step=False) == []


def test_a_gpu_that_was_not_busy_does_not_swing() -> None:
    assert asked([0.0] * 50) == []
    assert asked([0.4, 0.05] * 20) == []
    late = SWING_NS // SECOND + 2
    assert asked([0.95] + [0.3] * late + [0.0], every_ns=SECOND) == []


def test_a_handful_an_hour_is_enough() -> None:
    swings = [0.95, 0.0] * 900  # an hour, a swing each four seconds
    taken = asked(swings, every_ns=2 * SECOND)
    assert len(taken) == MOST_AN_HOUR
    assert all(later - earlier >= 3 for earlier, later in pairwise(taken))
    taken = asked(swings * 2, every_ns=2 * SECOND)
    assert len(taken) == 2 * MOST_AN_HOUR
    assert (taken[MOST_AN_HOUR] - taken[0]) * 2 * SECOND >= HOUR_NS
