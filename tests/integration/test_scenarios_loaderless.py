"""Real trainings without a loader: their work between two steps is named, and where they hang."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("loaderless")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_lies_between_two_steps_is_named(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    if not case.scenarios:
        assert not outcome.alerts, outcome.report()
        return
    finding = outcome.found()
    text = f"{finding['title']} {finding['cause']} {finding['advice']}"
    assert not [word for word in case.says if word not in text], outcome.report()
    assert len(finding["stacks"]) >= case.stacks, outcome.report()
