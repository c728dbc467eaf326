"""An optimizer whose step takes longer than it did, in runs that are played."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from loaderwatch.core.facts import LONGER_STEP
from loaderwatch.detect.finding import Finding
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S
from tests.unit.detect.played import noise, played, read

MODEL_S = 0.015


def run_of(
    optimizer_s: Callable[[float], float], model_s: Callable[[float], float] = lambda at_s: MODEL_S
) -> tuple[RankBuilder, float]:
    factor = noise(0.1)
    return read(
        100,
        lambda at_s: 0.002,
        lambda at_s: model_s(at_s) + optimizer_s(at_s) + 0.002 * factor(),
        model_s=lambda at_s: model_s(at_s) + optimizer_s(at_s),
        optimizer_s=optimizer_s,
    )


def slowed(run: tuple[RankBuilder, float]) -> list[tuple[float, Finding]]:
    return [(at_s, finding) for at_s, finding in played(run).found if "a slower optimizer" in finding.title]


def at(second: float, before_s: float, after_s: float) -> Callable[[float], float]:
    return lambda at_s: before_s if at_s < second else after_s


def test_an_optimizer_that_slows_down_at_one_moment() -> None:
    builder, waits_at_s = run_of(at(40, 0.004, 0.02))
    frames = stacks.main_in("step", user="train_epoch").replace("nn/parallel/distributed.py", "optim/adam.py")
    builder.stack(-1, 100, frames, why=LONGER_STEP)
    builder.now_ns += S
    found = slowed((builder, waits_at_s))
    assert 40 < found[0][0] < 70
    _, last = found[-1]
    assert (last.scenario, last.severity) == ("S26", "warning")
    assert "not the data loader" in last.title
    assert ", seen at train.py:61 in train_epoch; " in last.title
    assert "torch.set_flush_denormal(True)" in last.advice
    assert last.gain_ceiling_ratio == pytest.approx(0.016 / 0.0375, abs=0.05)


@pytest.mark.parametrize(
    ("optimizer_s", "model_s"),
    [
        pytest.param(at(40, 0.004, 0.02), at(40, 0.010, 0.025), id="a-backbone-is-thawed"),
        pytest.param(at(40, 0.004, 0.007), at(0, 0.015, 0.015), id="less-than-twice"),
        pytest.param(at(40, 0.02, 0.004), at(0, 0.015, 0.015), id="quicker"),
        pytest.param(at(40, 0.004, 0.02), at(40, 0.0, 0.02), id="a-model-that-took-no-time"),
        pytest.param(at(0, 0.02, 0.02), at(0, 0.015, 0.015), id="always-slow"),
        pytest.param(lambda at_s: 0.02 if 50 < at_s < 54 else 0.004, at(0, 0.015, 0.015), id="for-a-while"),
    ],
)
def test_others_do_not(optimizer_s: Callable[[float], float], model_s: Callable[[float], float]) -> None:
    assert slowed(run_of(optimizer_s, model_s)) == []
