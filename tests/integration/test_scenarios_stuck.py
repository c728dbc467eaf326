"""Training that stands still outside its loader, for real: in a save, or between two epochs."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("stuck")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_it_is_told_with_its_line(outcomes: dict[str, Outcome], case: Case) -> None:
    """And not before its limit."""
    outcome = outcomes[case.id]
    finding = outcome.found()
    assert finding["severity"] == "critical"
    text = f"{finding['title']} {finding['cause']} {finding['advice']}"
    assert not [word for word in case.says if word not in text], outcome.report()
    assert outcome.late_s() >= 0


@pytest.mark.parametrize(
    "name", ["s52_rank_saves", "s53_rank_locked", "s53_rendezvous", "s53_before_first_batch"]
)
def test_the_rank_that_the_others_wait_for_is_the_culprit(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    finding = outcome.found()
    assert finding["rank"] == outcome.case.rank
    assert f"for rank {outcome.case.rank}" in finding["title"]
