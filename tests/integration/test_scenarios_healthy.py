"""Healthy runs and look-alikes of faults, for real: nobody is to be woken by them."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.judge import waited
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CASES = in_group("healthy")
LEAST_STEPS, MOST_WAIT_RATIO = 100, 0.1
"""What a healthy script reaches on a machine that has time for it: there the verdict must say so."""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played to their end."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nobody_is_woken(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    assert not outcome.alerts, outcome.report()
    assert outcome.verdicts, outcome.report()
    steps, wait_ratio = waited(outcome.payloads)
    if steps >= LEAST_STEPS and wait_ratio < MOST_WAIT_RATIO:  # or the machine itself kept the data back
        assert any("Healthy" in verdict or "not yet an alert" in verdict for verdict in outcome.verdicts), (
            outcome.report()
        )
