"""A handful of stacks an hour, of each rank, and one reason at a time."""

from __future__ import annotations

from itertools import pairwise

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.streamer.stack_moments.budget import (
    APART_NS,
    HOUR_NS,
    OF_A_LONG_STEP_APART_NS,
    OF_ONE_APART_NS,
    OTHER_REASON_NS,
    LastStacks,
    StackBudget,
)

PID = 7


def test_a_handful_an_hour_spread_over_it() -> None:
    budget = StackBudget(LastStacks(), "a reason")
    taken = [at for at in range(0, HOUR_NS, SECOND_NS) if budget.take(0, [PID], at)]
    assert len(taken) == len(APART_NS)
    apart = [later - earlier for earlier, later in pairwise(taken)]
    assert apart == list(APART_NS[1:])
    assert not budget.take(0, [PID], HOUR_NS - 1)
    assert not budget.take(0, [PID], HOUR_NS)
    assert budget.take(0, [PID], taken[-1] + APART_NS[-1])


def test_each_rank_has_its_own() -> None:
    budget = StackBudget(LastStacks(), "a reason")
    assert budget.take(0, [PID], SECOND_NS)
    assert not budget.take(0, [PID], SECOND_NS)
    assert budget.take(1, [PID + 1], SECOND_NS)


def test_another_reason_waits_for_five_seconds() -> None:
    """Each reason has a budget of its own, and a process may give cause for all of them at once."""
    last = LastStacks()
    budgets = {
        "long step": StackBudget(last, "long step", OF_A_LONG_STEP_APART_NS),
        "longer step": StackBudget(last, "longer step", OF_ONE_APART_NS),
        "GPU idle": StackBudget(last, "GPU idle"),
    }
    tick_ns = SECOND_NS // 4
    taken = [
        (at, why)
        for at in range(0, HOUR_NS // 60, tick_ns)
        for why, budget in budgets.items()
        if budget.take(0, [PID], at)
    ]
    assert {why for _, why in taken} == set(budgets), "no reason keeps the others from theirs"
    for (earlier, before), (later, why) in pairwise(taken):
        assert why == before or later - earlier >= OTHER_REASON_NS


def test_what_does_not_ask_the_budget_counts_as_well() -> None:
    """The stacks of an old span, and those that a person asked for, come at once."""
    last = LastStacks()
    budget = StackBudget(last, "long step", OF_A_LONG_STEP_APART_NS)
    last.note([PID], "open span", SECOND_NS)
    assert not budget.take(0, [PID], SECOND_NS + OTHER_REASON_NS - 1)
    assert budget.take(0, [PID], SECOND_NS + OTHER_REASON_NS)


def test_other_processes_of_the_rank_are_not_kept_from_theirs() -> None:
    last = LastStacks()
    last.note([PID], "open span", 0)
    workers = StackBudget(last, "reader at work")
    assert not workers.take(0, [PID + 1, PID], SECOND_NS)
    assert workers.take(0, [PID + 1, PID + 2], SECOND_NS)
