"""A script whose own part of a step grows, or whose model does, in runs that are played."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from loaderwatch.core.facts import LONGER_STEP, SCRIPT_WORK
from loaderwatch.detect.finding import Finding
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S
from tests.unit.detect.played import Played, noise, played, read

MODEL_S = 0.02
GROWING = re.compile("growing script work|a slower model pass")
"""What the titles say of a script and of a model whose part of a step grows."""


def grown(run: Played) -> list[tuple[float, Finding]]:
    return [(at_s, finding) for at_s, finding in run.found if GROWING.search(finding.title)]


def quick(at_s: float) -> float:
    """A fetch that nobody waits for."""
    return 0.002


@pytest.mark.parametrize(("seconds", "every_s"), [(90, 1.0), (1500, 5.0)], ids=["a-minute", "half-an-hour"])
def test_work_that_grows_with_each_step(seconds: float, every_s: float) -> None:
    factor = noise(0.1)
    run = played(
        read(
            seconds,
            quick,
            lambda at_s: MODEL_S + (0.002 + 0.2 * at_s / seconds) * factor(),
            model_s=lambda at_s: MODEL_S,
        ),
        every_s,
    )
    found = grown(run)
    assert found[0][0] < 0.5 * seconds
    assert {finding.scenario for _, finding in found} == {"S26"}
    _, last = found[-1]
    assert last.severity == "warning"
    assert "not the data loader" in last.title
    # 75 % in all, but measured against the first eighth, which had grown already, and up to some seconds ago.
    assert 0.45 * seconds < (last.lost_s or 0.0) < 0.76 * seconds
    assert last.gain_ceiling_ratio == pytest.approx(0.85, abs=0.1)


def test_it_shows_beside_other_programs() -> None:
    """They slow down the model as well, for 25 s of every 50."""

    def slowed(at_s: float) -> float:
        return 2.5 if at_s % 50 >= 25 else 1.0

    run = played(
        read(
            100,
            quick,
            lambda at_s: slowed(at_s) * (MODEL_S + 0.002 + 0.2 * at_s / 100),
            model_s=lambda at_s: slowed(at_s) * MODEL_S,
        )
    )
    assert grown(run)[-1][0] > 90
    assert grown(run)[-1][1].severity == "warning"


@pytest.mark.parametrize(
    ("step", "model"),
    [
        pytest.param(lambda at_s: 0.03 + at_s / 500, None, id="phases-that-are-not-timed"),
        pytest.param(lambda at_s: 0.03 if at_s < 60 else 0.2, lambda at_s: MODEL_S, id="at-one-moment"),
        pytest.param(
            lambda at_s: 0.065 - at_s / 3000, lambda at_s: 0.045 - at_s / 3000, id="a-model-that-gets-quicker"
        ),
        pytest.param(lambda at_s: 0.3 - at_s / 500, lambda at_s: MODEL_S, id="it-shrinks"),
        pytest.param(lambda at_s: 0.0204 + at_s / 1e5, lambda at_s: MODEL_S, id="little"),
    ],
)
def test_others_are_no_growth_of_the_script(step: object, model: object) -> None:
    run = played(read(120, quick, step, model_s=model))  # type: ignore[arg-type]
    assert grown(run) == []


def with_stack(builder: RankBuilder, waits_at_s: float) -> tuple[RankBuilder, float]:
    builder.stack(-1, 100, stacks.main_in(user="area_under_curve"), why=SCRIPT_WORK)
    builder.now_ns += S
    return builder, waits_at_s


def test_the_line_that_grows() -> None:
    run = played(
        with_stack(*read(90, quick, lambda at_s: MODEL_S + 0.002 + at_s / 500, model_s=lambda at_s: MODEL_S))
    )
    _, last = grown(run)[-1]
    assert ", seen at train.py:61 in area_under_curve; " in last.title
    assert len(last.stacks) == 1


def growing_model(
    pass_s: Callable[[float], float],
    other: Callable[[float], float] = lambda at_s: 1.0,
    batch_bytes: Callable[[float], int] = lambda at_s: 1_000_000,
) -> Played:
    """Two minutes of a model whose pass takes so long, beside which other programs slow down everything."""
    factor = noise(0.1)

    def model_s(at_s: float) -> float:
        return other(at_s) * (pass_s(at_s) + 0.005)

    return played(
        read(
            120,
            quick,
            lambda at_s: model_s(at_s) + other(at_s) * 0.003 * factor(),
            model_s=model_s,
            optimizer_s=lambda at_s: other(at_s) * 0.005,
            batch_bytes=batch_bytes,
        )
    )


def test_a_model_whose_pass_grows_while_batches_do_not() -> None:
    found = grown(growing_model(lambda at_s: MODEL_S + at_s / 500))
    assert found[0][0] < 60
    _, last = found[-1]
    assert (last.scenario, last.severity) == ("S26", "warning")
    assert "a slower model pass (same batch size): " in last.title
    assert "hooks" in last.advice
    assert last.gain_ceiling_ratio == pytest.approx(0.75, abs=0.1)


def test_it_stays_told_while_it_is_as_large_as_it_became() -> None:
    found = grown(growing_model(lambda at_s: MODEL_S + min(at_s, 70) / 500))
    assert found[-1][0] > 110


@pytest.mark.parametrize(
    ("pass_s", "fields"),
    [
        pytest.param(
            lambda at_s: MODEL_S + at_s / 500,
            {"batch_bytes": lambda at_s: int(1e6 + at_s * 5e4)},
            id="longer-sequences",
        ),
        pytest.param(lambda at_s: MODEL_S + at_s / 500, {"batch_bytes": lambda at_s: 0}, id="texts"),
        pytest.param(lambda at_s: MODEL_S * (1 + at_s // 30), {}, id="in-stages"),
        pytest.param(lambda at_s: MODEL_S, {"other": lambda at_s: 1 + at_s / 30}, id="a-machine-that-slows"),
    ],
)
def test_others_are_no_growth_of_the_model(pass_s: Callable[[float], float], fields: dict[str, Any]) -> None:
    assert grown(growing_model(pass_s, **fields)) == []


def test_the_line_of_the_model() -> None:
    builder, waits_at_s = read(
        90, quick, lambda at_s: MODEL_S + 0.01 + at_s / 500, model_s=lambda at_s: MODEL_S + at_s / 500,
        optimizer_s=lambda at_s: 0.005,
    )  # fmt: skip
    builder.stack(-1, 100, stacks.main_in("_call_impl", user="keep_histogram"), why=LONGER_STEP)
    builder.now_ns += S
    _, last = grown(played((builder, waits_at_s)))[-1]
    assert "in keep_histogram; not the data loader" in last.title


def unwatched(
    step_s: Callable[[float], float],
    batch_bytes: Callable[[float], int] = lambda at_s: 1_000_000,
    other: float = 0.0,
) -> list[Finding]:
    """Two minutes with only the optimizer timed; the machine slows down by ``other`` per second."""

    def slowed(at_s: float) -> float:
        return 1 + other * at_s

    builder = read(
        120,
        quick,
        lambda at_s: slowed(at_s) * (step_s(at_s) + 0.004),
        optimizer_s=lambda at_s: slowed(at_s) * 0.004,
        batch_bytes=batch_bytes,
    )
    builder[0].stack(-1, 100, stacks.main_in(user="inner_loop"), why=LONGER_STEP)
    return [finding for _, finding in played(builder).found if "to slower steps (" in finding.title]


def test_steps_that_grow_where_no_model_is_watched() -> None:
    found = unwatched(lambda at_s: 0.03 + at_s / 400)
    last = found[-1]
    assert (last.scenario, last.severity) == ("S26", "warning")
    assert ", seen at train.py:61 in inner_loop; " in last.title
    assert "retain_graph=True" in last.advice
    assert "Pass model= to loaderwatch.attach()" in last.advice


@pytest.mark.parametrize(
    ("step_s", "fields"),
    [
        pytest.param(
            lambda at_s: 0.03 + at_s / 400,
            {"batch_bytes": lambda at_s: int(1e6 + 5e4 * at_s)},
            id="longer-sequences",
        ),
        pytest.param(lambda at_s: 0.03, {"other": 0.05}, id="a-machine-that-slows"),
        pytest.param(lambda at_s: 0.03 * (1 + at_s // 30), {}, id="in-stages"),
    ],
)  # fmt: skip
def test_steps_that_are_meant_to_take_longer(
    step_s: Callable[[float], float], fields: dict[str, Any]
) -> None:
    assert unwatched(step_s, **fields) == []
