"""Which part of a step is to blame for an idle GPU, by both clocks, and what the loop does in each part."""

from __future__ import annotations

import math

import pytest

from loaderwatch.core.answers import Text
from loaderwatch.detect.measures.pace import paces_of
from loaderwatch.detect.measures.stacks import Frame
from loaderwatch.detect.slow_step.sawtooth_causes import Cause, Seen, Steps, Swing, causes
from loaderwatch.detect.window import RankWindow
from loaderwatch.texts import say
from tests.unit.detect.build import RankBuilder, S, run
from tests.unit.detect.stacks import SAVE, main_in

STEP_S = 0.15
SAVES = Frame("train.py", "61", "save").text
LEAST = 0.1  # of all time
BUSY = {
    "h2d": 0.0,
    "forward": 0.03,
    "backward": 0.06,
    "optimizer": 0.0,
    "other": 0.0,
}  # by the device's clock
QUICK = {
    "h2d": 0.0,
    "forward": 0.001,
    "backward": 0.001,
    "optimizer": 0.001,
    "other": 0.0,
}  # of an asynchronous loop


def swing(
    loop: dict[str, float],
    device: dict[str, float] | None = None,
    *,
    idle: float = 0.4,
    slack_s: float = 0.0,
    cpu: float = 0.1,
    seen: dict[str, Seen] | None = None,
    period_s: float = math.nan,
) -> Swing:
    """A GPU that idles ``idle`` of the time within steps of 150 ms."""
    builder = RankBuilder()
    for _ in range(40):
        builder.step(0.0, STEP_S)
    rank: RankWindow = run(builder).ranks[0]
    (pace,) = paces_of(rank)
    return Swing(
        rank=rank, pace=pace, high=1.0, low=0.0, period_s=period_s, idle=idle, unexplained=idle,
        began_ns=0, ended_ns=0,
        loop_s=QUICK | loop, device_s={} if device is None else BUSY | device, slack_s=slack_s,
        thread_cpu=cpu, seen=seen or {},
    )  # fmt: skip


def words(found: Cause, part: str) -> str:
    return say(Text(found.explanation.rule, found.explanation.params, part))


@pytest.mark.parametrize(
    ("told", "rule", "because", "scenario"),
    [
        # the loop waits 90 ms for the device and then writes for 60
        (
            swing({"other": 0.15}, {"other": 0.06}),
            "gpu-waits-for-loop",
            "it waits for the loop's own work",
            "S26",
        ),
        (
            swing({"other": 0.06}, period_s=1.6),
            "gpu-waits-for-loop",
            "it waits for the loop's own work",
            "S26",
        ),
        (
            swing({"h2d": 0.06}, {"h2d": 0.06}),
            "gpu-waits-for-batch-copy",
            "it waits for work on the batch before the model call",
            "S17",
        ),
        (
            swing({"optimizer": 0.15}, {"optimizer": 0.06}),
            "gpu-waits-for-optimizer",
            "it waits for optimizer.step()",
            "S26",
        ),
        (
            swing({"forward": 0.05, "backward": 0.1}, {"forward": 0.05, "backward": 0.1}, cpu=0.98),
            "launch-bound",
            "the training thread launches its work too slowly",
            "S51",
        ),
        # 5 ms of launching, of which each step has 15 % idle time, and then 130 ms in .item()
        (
            swing({"forward": 0.01, "backward": 0.012, "other": 0.128}, idle=0.15, device={"backward": 0.1}),
            "gpu-synchronised-each-step",
            "the loop waits for the GPU in each step, and only then launches more",
            "S50",
        ),
        (
            swing({"forward": 0.07}, {"forward": 0.09}),
            "model-on-the-cpu",
            "it waits for the forward pass",
            "S26",
        ),
        (
            swing({"backward": 0.07}, {"backward": 0.09}, cpu=0.98),
            "model-on-the-cpu",
            "it waits for the backward pass",
            "S26",
        ),
    ],
)
def test_the_part_that_holds_the_idle_time_is_named(
    told: Swing, rule: str, because: str, scenario: str
) -> None:
    (found,) = causes(told, LEAST)
    assert (found.explanation.rule, found.explanation.scenario) == (rule, scenario)
    assert words(found, "because") == because
    assert words(found, "advice")
    assert found.share == pytest.approx(told.unexplained)


@pytest.mark.parametrize(
    "told",
    [
        swing({}, {}),  # kernels run long after a backward pass was launched: that is work
        swing({"other": 0.15}, {}),  # .item() waits for that work
        swing({"forward": 0.01, "backward": 0.01, "other": 0.13}, {}, slack_s=0.2),  # it runs ahead
        swing({"other": 0.06}),  # a mean utilization, and no part that the device has timed
    ],
    ids=["asynchronous", "item", "ahead", "mean"],
)
def test_what_one_clock_alone_accuses_is_not_to_blame(told: Swing) -> None:
    assert causes(told, LEAST) == []


def test_the_line_is_told_where_a_stack_was_taken() -> None:
    seen = {
        "other": Seen(line=Frame("train.py", "12", "report").text),
        "optimizer": Seen(line=Frame("train.py", "99", "step").text),
    }
    (found,) = causes(swing({"other": 0.15}, {"other": 0.06}, seen=seen), LEAST)
    assert "60 ms of the 150 ms of an iteration (train.py:12 in report)." in words(found, "cause")
    long_ago = {"other": Seen(line=Frame("train.py", "12", "report").text, age_s=300.0, phase="logging")}
    (found,) = causes(swing({"other": 0.15}, {"other": 0.06}, seen=long_ago), LEAST)
    assert "an iteration (phase “logging”, train.py:12 in report, 5 min 0 s ago)." in words(found, "cause")
    (found,) = causes(swing({"other": 0.15}, {"other": 0.06}, seen={"other": Seen(phase="logging")}), LEAST)
    assert "an iteration (phase “logging”)." in words(found, "cause")


def shares(told: Swing) -> dict[str, float]:
    return {cause.place: round(cause.share, 2) for cause in causes(told, LEAST)}


def test_each_of_two_causes_has_its_share() -> None:
    """40 % of the time for each: a checkpoint now and then, and the optimizer in each step."""
    both = {"pauses": 0.06, "optimizer": 0.06}
    told = swing(
        both, both, idle=0.8, seen={"pauses": Seen(line=Frame("train.py", "61", "save").text, saves=True)}
    )
    assert shares(told) == {"pauses": 0.4, "optimizer": 0.4}
    checkpoint, optimizer = causes(told, LEAST)
    assert checkpoint.explanation.rule == "gpu-waits-for-checkpoint"
    assert "(train.py:61 in save), on average of all steps." in words(checkpoint, "cause")
    assert optimizer.explanation.rule == "gpu-waits-for-optimizer"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            swing({"other": 0.06, "h2d": 0.03}, {"other": 0.06, "h2d": 0.03}, idle=0.6),
            {"other": 0.4, "h2d": 0.2},
        ),
        # the device is busy during part of the launching; the rest of the idle time is blamed on launching
        (
            swing({"other": 0.045, "forward": 0.08}, {"other": 0.045, "forward": 0.1}, idle=0.6),
            {"other": 0.3, "launching": 0.3},
        ),
        # a place shorter than the difference of the clocks
        (swing({"other": 0.055, "h2d": 0.005}, {"other": 0.055, "h2d": 0.005}), {"other": 0.4}),
        # a third of the idle time has a place: that is not enough to blame it
        (swing({"other": 0.03}, {"other": 0.03}, idle=0.6), {}),
    ],
    ids=["two places", "a place and the model", "noise", "a third"],
)
def test_how_the_idle_time_is_divided(told: Swing, expected: dict[str, float]) -> None:
    assert shares(told) == expected


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
