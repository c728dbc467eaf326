"""A handful of stacks an hour, of each rank."""

from __future__ import annotations

from itertools import pairwise

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.streamer.stack_moments.budget import APART_NS, HOUR_NS, StackBudget


def test_a_handful_an_hour_spread_over_it() -> None:
    budget = StackBudget()
    taken = [at for at in range(0, HOUR_NS, SECOND_NS) if budget.take(0, at)]
    assert len(taken) == len(APART_NS)
    apart = [later - earlier for earlier, later in pairwise(taken)]
    assert apart == list(APART_NS[1:])
    assert not budget.take(0, HOUR_NS - 1)
    assert not budget.take(0, HOUR_NS)
    assert budget.take(0, taken[-1] + APART_NS[-1])


def test_each_rank_has_its_own() -> None:
    budget = StackBudget()
    assert budget.take(0, SECOND_NS)
    assert not budget.take(0, SECOND_NS)
    assert budget.take(1, SECOND_NS)
