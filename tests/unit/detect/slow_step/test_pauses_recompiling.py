"""S27 in most steps: a compiler that no step stands out by."""

from __future__ import annotations

import pytest

from loaderwatch.core.facts import LONGER_STEP
from loaderwatch.detect.finding import Finding
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder
from tests.unit.detect.played import looks

BUILDS = stacks.main_in("_compile", "_fn", user="fit").replace(
    "torch/nn/parallel/distributed.py", "torch/_dynamo/convert_frame.py"
)
RUNS = stacks.main_in("_fn", user="fit").replace(
    "torch/nn/parallel/distributed.py", "torch/_dynamo/eval_frame.py"
)


def compiles(builder: RankBuilder) -> list[Finding]:
    """What is found in the end, by a server that saw all of it."""
    (*_, (_, findings)) = looks(builder.step(0.001, 0.001))
    return [finding for finding in findings if finding.scenario == "S27"]


def looked_at(builder: RankBuilder, *texts: str, step_s: float = 2.0) -> RankBuilder:
    """A step after each look, behind some as long."""
    for _ in range(10):
        builder.step(0.001, step_s)
    for text in texts:
        builder.stack(-1, 100, text, why=LONGER_STEP)
        builder.step(0.001, step_s)
    return builder


def test_a_compiler_in_most_of_the_steps() -> None:
    builder = looked_at(RankBuilder(), *[BUILDS, RUNS] * 3)
    (finding,) = compiles(builder)
    assert finding.severity == "critical"
    assert "spends about 50 % of the time compiling: 3 of 6 stack checks in steps" in finding.title
    assert "train.py:61 in fit" in finding.cause
    assert finding.gain_ceiling_ratio == pytest.approx(0.5)


@pytest.mark.parametrize(("step_s", "told"), [(2.0, True), (0.1, False)])
def test_it_goes_on_as_long_as_steps_are_as_long(step_s: float, told: bool) -> None:
    """Long after the last look: no more of them are taken than a few an hour."""
    builder = looked_at(RankBuilder(), *[BUILDS] * 4)
    for _ in range(int(60 / step_s)):
        builder.step(0.001, step_s)
    assert bool(compiles(builder)) is told


@pytest.mark.parametrize("texts", [[RUNS] * 6, [BUILDS] * 2 + [RUNS] * 4, [BUILDS] * 3 + [RUNS] * 9])
def test_what_was_compiled_is_run(texts: list[str]) -> None:
    assert not compiles(looked_at(RankBuilder(), *texts))
