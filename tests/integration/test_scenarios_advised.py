"""The advice of a finding, done to the script that it was given for: the run goes through."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("advised")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played to their end."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_run_goes_through(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    assert outcome.exit_code == 0, outcome.report()
    assert not outcome.alerts, outcome.report()
