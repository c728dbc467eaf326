"""Which way ``autotune`` moves, by what passes measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loaderwatch.agent.tuning.autotune import Planner, free_cpus
from loaderwatch.agent.tuning.pass_measures import Measured
from loaderwatch.core.message import Text
from loaderwatch.core.system import usable_cpus
from loaderwatch.pipeline.simulation import Pipeline, Setting, iteration_s
from loaderwatch.texts import say

FETCH_S, STEP_S = 0.08, 0.01


def pipeline(fetch_s: float = FETCH_S, **more: Any) -> Pipeline:
    return replace(Pipeline(np.full(50, fetch_s), np.full(50, STEP_S)), **more)


def measured(setting: Setting, of: Pipeline | None = None, slower: float = 1.0) -> Measured:
    """What a pass with this setting measures if the simulation is right, ``slower`` times as long."""
    of = of or pipeline()
    each_s = slower * iteration_s(of, setting)
    return Measured(50, each_s, max(0.0, 1 - STEP_S / each_s), setting.num_workers, of, 1000, 1000)


def settle(planner: Planner, now: Setting, of: Pipeline | None = None, passes: int = 10) -> list[Setting]:
    """The settings of so many passes."""
    seen = [now]
    for _ in range(passes):
        move = planner.move(now, measured(now, of))
        now = now if move is None else move.after
        seen.append(now)
    return seen


def workers(settings: list[Setting]) -> list[int]:
    return [setting.num_workers for setting in settings]


def test_workers_double_until_the_device_is_fed() -> None:
    assert workers(settle(Planner(), Setting(1), passes=5)) == [1, 2, 4, 8, 8, 8]


def test_from_none_it_begins_with_two() -> None:
    assert workers(settle(Planner(), Setting(0), passes=2)) == [0, 2, 4]


def test_far_too_many_are_taken_away_with_some_to_spare() -> None:
    seen = workers(settle(Planner(), Setting(32), passes=6))
    assert seen[:3] == [32, 16, 10]
    assert seen[-1] == 10


def test_no_more_than_the_dataset_is_right_for() -> None:
    assert workers(settle(Planner(most=1), Setting(1), passes=2)) == [1, 1, 1]
    assert workers(settle(Planner(most=3), Setting(1), passes=3)) == [1, 2, 3, 3]


def test_workers_that_need_a_cpu_stay_within_the_cpus() -> None:
    busy = pipeline(fetch_cpus=1.0, cpus=4.0)
    assert max(workers(settle(Planner(), Setting(1), busy))) <= 6


def test_no_move_into_too_little_memory() -> None:
    planner = Planner(
        why_no_room=lambda setting, _: Text("no-room-in-memory") if setting.num_workers > 2 else None
    )
    assert workers(settle(planner, Setting(1), passes=3)) == [1, 2, 2, 2]


def test_a_move_that_did_not_come_true_is_taken_back_and_not_tried_again() -> None:
    planner, one, two = Planner(), Setting(1), Setting(2)
    move = planner.move(one, measured(one))
    assert move is not None
    assert move.after == two
    assert say(move.text(3)) == "before epoch 3: num_workers 1 → 2 (12.5 batches/s, 25 predicted)"
    as_before = measured(two, slower=2.0)  # as slow as with one worker
    assert planner.move(two, as_before) is None  # one more pass, in case something else disturbed this one
    back = planner.move(two, as_before)
    assert back is not None
    assert back.after == one
    assert (
        say(back.text(4))
        == "before epoch 4: num_workers 2 → 1 (taken back: 12.5 batches/s, 25 were predicted)"
    )
    assert planner.move(one, measured(one)) is None


def test_a_move_that_made_it_slower_is_taken_back_at_once() -> None:
    planner, two = Planner(), Setting(2)
    planner.move(Setting(1), measured(Setting(1)))
    back = planner.move(two, measured(two, slower=2.3))
    assert back is not None
    assert back.after == Setting(1)


def test_bursts_get_a_deeper_cushion_when_workers_keep_up() -> None:
    burst = np.full(64, 0.01)
    burst[::32] = 0.6
    of = Pipeline(burst, np.full(64, 0.012), fetch_cpus=1.0, cpus=2.0)
    seen = settle(Planner(most=3), Setting(3), of)
    assert seen[-1].num_workers == 3
    assert seen[-1].prefetch_factor > 2


def test_ranks_share_the_cpus() -> None:
    assert free_cpus({}) == usable_cpus()
    assert free_cpus({"LOCAL_WORLD_SIZE": "4"}) == usable_cpus() / 4
    assert free_cpus({"LOCAL_WORLD_SIZE": "none"}) == usable_cpus()


@pytest.mark.parametrize("nothing", [float("nan"), 0.0])
def test_a_pass_that_measured_nothing_moves_nothing(nothing: float) -> None:
    found = replace(measured(Setting(1)), iteration_s=nothing)
    assert Planner().move(Setting(1), found) is None
