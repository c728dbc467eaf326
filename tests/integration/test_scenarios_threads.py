"""Real trainings whose loader a thread reads ahead: the cause is named as in a loop that reads itself."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("threads")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_the_thread_waits_for_is_named(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    if not case.scenarios:
        assert not outcome.alerts, outcome.report()
        return
    finding = outcome.found()
    text = f"{finding['title']} {finding['cause']} {finding['advice']}"
    assert not [word for word in case.says if word not in text], outcome.report()
