"""More look-alikes of faults, for real: nobody is to be woken by them."""

from __future__ import annotations

import shutil

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated GPU needs a C compiler"),
]

CASES = in_group("alike")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played to their end."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_nobody_is_woken(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.id]
    assert not outcome.alerts, outcome.report()
    assert outcome.verdicts, outcome.report()
