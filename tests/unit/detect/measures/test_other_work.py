"""Whether a child or another thread of a process works, and whether such a thread holds the interpreter."""

from __future__ import annotations

import pytest

from loaderwatch.core.facts import INTERPRETER_HELD, LONGER_STEP
from loaderwatch.detect.measures.other_work import (
    children_ended,
    children_work,
    interpreter_held,
    threads_work,
)
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S


@pytest.mark.parametrize(
    ("known", "children", "threads"),
    [
        ({}, None, None),
        ({"threads_switches_per_s": 0.5}, None, False),
        ({"threads_switches_per_s": 5.0}, None, True),
        ({"children_cpu_ratio": 0.0, "children_switches_per_s": 0.0}, False, None),
        ({"children_cpu_ratio": 0.2, "children_switches_per_s": 0.0}, True, None),
        ({"children_cpu_ratio": 0.0, "children_switches_per_s": 3.0}, True, None),
    ],
)
def test_who_works(known: dict[str, float], children: bool | None, threads: bool | None) -> None:
    builder = RankBuilder().open("outside", 10.0)
    builder.helpers = known
    rank = builder.half_a_minute().build()
    assert rank.span is not None
    assert children_work(rank, 100, rank.span.since_ns) is children
    assert threads_work(rank, 100, rank.span.since_ns) is threads
    assert threads_work(rank, 4711, rank.span.since_ns) is None


def test_two_readings_are_too_few() -> None:
    builder = RankBuilder()
    for _ in range(2):
        builder.process(worker=-1, pid=100, cpu=0.0, threads_switches_per_s=9.0)
    assert threads_work(builder.build(), 100, 0) is None


def test_children_that_have_ended() -> None:
    builder = RankBuilder().open("outside", 10.0)
    assert children_ended(builder.build(), 100) == 0
    builder.helpers = {"children_ended": 2.0}
    rank = builder.half_a_minute().build()
    assert children_ended(rank, 100) == 2
    assert children_ended(rank, 4711) == 0


def beside(
    *,
    main: float = 0.15,
    others: float = 0.4,
    lacked: float = 0.35,
    woken: float = 160.0,
    stacks_of: str = stacks.SCORER,
    seconds: int = 30,
    asleep: float = 0.0,
) -> RankBuilder:
    """A training process whose threads have the given CPU shares each second, and two stacks."""
    builder = RankBuilder()
    for second in range(seconds + 1):
        builder.now_ns += S
        builder.process(
            worker=-1,
            pid=100,
            cpu=main + others,
            main_cpu_ratio=main,
            run_delay_ratio=lacked,
            voluntary_switches=second * woken,
            timer_wait=asleep,
        )
    for _ in range(2):
        builder.stack(-1, 100, stacks_of, why=INTERPRETER_HELD)
    return builder


def test_a_thread_that_holds_the_interpreter() -> None:
    held = interpreter_held(beside().build())
    assert held is not None
    assert held.blocked_s == pytest.approx(15.0, rel=0.05)
    assert held.woken_per_s == pytest.approx(160)
    assert str(held.frame) == "train.py:66 in edit_distance"


@pytest.mark.parametrize(
    "fields",
    [
        {"main": 0.6, "others": 0.4},  # both run: the other gives it back
        {"others": 0.05},  # nobody else computes
        {"lacked": 0.85},  # a full machine
        {"woken": 5.0},  # it waits for something else
        {"asleep": 1.0},  # a loop that polls
        {"seconds": 4},
        {"stacks_of": stacks.main_in("_call_impl")},  # no other thread in Python: it is a library's
    ],
)
def test_others_that_compute_and_hold_nobody_up(fields: dict[str, float]) -> None:
    assert interpreter_held(beside(**fields).build()) is None  # type: ignore[arg-type]


def test_a_training_thread_that_waits_for_the_result_is_not_held() -> None:
    builder = beside(stacks_of=stacks.SCORER_AWAITED)
    assert interpreter_held(builder.build()) is None
    builder.stack(-1, 100, stacks.SCORER, why=LONGER_STEP)
    assert interpreter_held(builder.build()) is None, "one stack is too few"
