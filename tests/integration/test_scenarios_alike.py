"""More look-alikes of faults, for real: nobody is to be woken by them."""

from __future__ import annotations

import re
import shutil

import pytest

from loaderwatch.core import wire
from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, play

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
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


@pytest.mark.parametrize("name", ["n17_refused", "n17_silent", "n17_stopped"])
def test_an_outage_loses_nothing(outcomes: dict[str, Outcome], name: str) -> None:
    outcome = outcomes[name]
    trained = re.search(r"trained (\d+) steps", outcome.output)
    assert trained is not None, outcome.report()
    tables = [wire.decode(payload).tables.get("steps") for payload in outcome.payloads]
    assert sum(wire.row_count(table) for table in tables if table) == int(trained[1])
