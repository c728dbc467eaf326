"""The parts of a step: what the loop does in each, and what it does now and then."""

from __future__ import annotations

import pytest

from loaderwatch.detect.measures.pace import paces_of
from loaderwatch.detect.measures.stacks import Frame
from loaderwatch.detect.slow_step.sawtooth_parts import Steps
from loaderwatch.detect.window import RankWindow
from tests.unit.detect.build import RankBuilder, S, run
from tests.unit.detect.stacks import SAVE, main_in

SAVES = Frame("train.py", "61", "save").text


def stepping() -> RankBuilder:
    """Sixty steps of 0.1 s, of which 30 ms are the loop's own; every tenth takes a second more."""
    rank = RankBuilder()
    for number in range(1, 61):
        rank.step(
            0.0, 0.1 if number % 10 else 1.1,
            h2d_ns=10_000_000, forward_ns=20_000_000, backward_ns=30_000_000, optimizer_ns=10_000_000,
        )  # fmt: skip
    return rank


def steps_of(builder: RankBuilder) -> tuple[RankWindow, Steps]:
    rank = run(builder).ranks[0]
    (pace,) = paces_of(rank)
    return rank, Steps(pace)


def test_what_is_done_now_and_then_is_a_part_of_its_own() -> None:
    _, steps = steps_of(stepping())
    share = 6 / len(steps.pace.request_ns)
    assert steps.loop_s["other"] == pytest.approx(0.03, abs=0.001)
    assert steps.loop_s["pauses"] == pytest.approx(share, abs=0.001)
    assert steps.loop_s["forward"] == pytest.approx(0.02)
    assert steps.device_s == {}  # it timed nothing


def test_a_stack_is_of_the_part_in_which_it_was_taken() -> None:
    builder = stepping()
    builder.now_ns -= S // 2  # in the newest long step
    builder.stack(-1, 100, SAVE)
    builder.stack(-1, 100, main_in("step").replace("torch/nn/parallel/distributed.py", "torch/optim/sgd.py"))
    builder.now_ns += S // 2
    rank, steps = steps_of(builder)
    seen = steps.seen(rank.stacks, began_ns=0, reaches_back=False)
    assert seen.keys() == {"pauses", "optimizer"}
    assert seen["pauses"].saves
    assert seen["pauses"].line == SAVES
    assert not seen["optimizer"].saves


def test_an_old_stack_is_told_with_its_age_or_not_at_all() -> None:
    builder = stepping()
    builder.now_ns -= 300 * S
    builder.stack(-1, 100, SAVE)
    builder.now_ns += 300 * S
    rank, steps = steps_of(builder)
    assert steps.seen(rank.stacks, rank.made_ns - 60 * S, reaches_back=False) == {}
    (seen,) = steps.seen(rank.stacks, rank.made_ns - 60 * S, reaches_back=True).values()
    assert seen.line == SAVES
    assert seen.age_s == pytest.approx(300.0, abs=0.1)


def test_a_phase_of_the_users_names_what_it_holds() -> None:
    builder = stepping()
    builder.phase_names = ["checkpoint"]
    for row in list(builder.rows["steps"]):
        if row["step_ns"] > S:
            builder.add("phases", name=0, request_ns=int(row["request_ns"]) + S // 10, duration_ns=S, step=0)
    _, steps = steps_of(builder)
    seen = steps.seen([], 0, reaches_back=False)
    assert seen.keys() == {"pauses"}
    assert seen["pauses"].saves
    assert (seen["pauses"].phase, seen["pauses"].line) == ("checkpoint", None)
