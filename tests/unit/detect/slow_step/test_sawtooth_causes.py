"""Which part of the step is to blame for an idle GPU, by both clocks."""

from __future__ import annotations

import math

import pytest

from loaderwatch.detect.measures.pace import paces
from loaderwatch.detect.slow_step.sawtooth_causes import Swing, explain
from loaderwatch.detect.window import RankWindow
from tests.unit.detect.build import RankBuilder, run

STEP_S = 0.15
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
    line: str = "",
    period_s: float = math.nan,
) -> Swing:
    """A GPU that idles ``idle`` of the time within steps of 150 ms."""
    builder = RankBuilder()
    for _ in range(40):
        builder.step(0.0, STEP_S)
    rank: RankWindow = run(builder).ranks[0]
    (pace,) = paces(rank)
    return Swing(
        rank=rank, pace=pace, high=1.0, low=0.0, period_s=period_s, idle=idle, unexplained=idle, began_ns=0,
        loop_s=QUICK | loop, device_s={} if device is None else BUSY | device, slack_s=slack_s, thread_cpu=cpu, line=line,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "because", "scenario"),
    [
        # the loop waits 90 ms for the device and then writes for 60
        (swing({"other": 0.15}, {"other": 0.06}), "the loop's own work in the step", "S26"),
        (swing({"other": 0.06}, period_s=1.6), "the loop's own work in the step", "S26"),
        (swing({"h2d": 0.06}, {"h2d": 0.06}), "what lies between a batch's arrival and the model", "S17"),
        (swing({"optimizer": 0.15}, {"optimizer": 0.06}), "optimizer.step()", "S26"),
        (
            swing({"forward": 0.05, "backward": 0.1}, {"forward": 0.05, "backward": 0.1}, cpu=0.98),
            "the training thread launches its work too slowly",
            "S51",
        ),
        # 5 ms of launching, of which each step has 15 % idle time, and then 130 ms in .item()
        (
            swing({"forward": 0.01, "backward": 0.012, "other": 0.128}, idle=0.15, device={"backward": 0.1}),
            "the loop waits for it in each step",
            "S50",
        ),
        (swing({"forward": 0.07}, {"forward": 0.09}), "the forward pass", "S26"),
        (swing({"backward": 0.07}, {"backward": 0.09}, cpu=0.98), "the backward pass", "S26"),
    ],
)
def test_the_part_that_holds_the_idle_time_is_named(told: Swing, because: str, scenario: str) -> None:
    found = explain(told)
    assert found is not None
    assert (found.because, found.scenario) == (because, scenario)
    assert found.advice


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
    assert explain(told) is None


def test_the_line_is_told_where_a_stack_was_taken() -> None:
    found = explain(swing({"other": 0.15}, {"other": 0.06}, line="train.py:12 in report"))
    assert found is not None
    assert "60 ms of the 150 ms of an iteration (train.py:12 in report)" in found.cause
