"""Real runs with evaluation inside training steps, in an own loop, in Lightning and in a Trainer.

Its waiting is reported as that of the evaluation. A training step lasts as long as the model makes it.
"""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.core import wire
from loaderwatch.detect.measures.pace import paces_of
from loaderwatch.server.window.builder import WindowBuilder
from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FRAMEWORKS = tuple(
    Case(script, ("S55",), "evaluation", within_s=40, says=("Evaluation waits for data", "num_workers"))
    for script in ("lightning_validation", "trainer_validation")
)
CASES = (*in_group("evaluation"), *FRAMEWORKS)
SLOW = [case for case in CASES if case.scenarios]
STEP_S = 0.04  # what all of them sleep in a training step
WITHIN = 1.6  # times that: the optimizer and the framework work as well
APART = 1.2  # how much longer the steps are by the clock, or there was no evaluation inside


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played until they are found."""
    for package in ("lightning", "transformers"):
        pytest.importorskip(package)
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", SLOW, ids=lambda case: case.id)
def test_a_slow_evaluation_is_named(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    found = [finding for finding in outcome.findings if finding["scenario"] == "S55"]
    assert len(found) == 1, outcome.report()
    for words in case.says:
        assert words in found[0]["title"] + found[0]["advice"], outcome.report()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_training_gets_no_advice_for_it(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    training = [finding for finding in outcome.findings if finding["code"] == "input-bound"]
    assert not [finding for finding in training if "num_workers" in finding["advice"]], outcome.report()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_step_is_as_long_as_the_model_makes_it(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    builder = WindowBuilder("run")
    for payload in outcome.payloads:
        builder.add(wire.decode(payload))
    (rank,) = builder.window().ranks.values()
    (pace,) = paces_of(rank)
    assert pace.mean_step_s < WITHIN * STEP_S, outcome.report()
    by_the_clock_s = float(np.nanmean(pace.step_s + pace.nested_s + pace.aside_s))
    assert by_the_clock_s > APART * pace.mean_step_s


def test_a_fast_evaluation_wakes_nobody(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["n20_validation_inside"]
    assert not outcome.alerts, outcome.report()
