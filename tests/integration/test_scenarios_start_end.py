"""Training that stands still as it starts or ends, for real: a first batch, or Python's own end."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("start_end")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_is_told_with_its_line(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    finding = outcome.found()
    assert finding["severity"] == "critical"
    text = f"{finding['title']} {finding['cause']} {finding['advice']}"
    assert not [word for word in case.says if word not in text], outcome.report()
    assert outcome.late_s() >= 0
