"""Real trainings, input-bound by the machine, the storage or the batch: the exact cause must be named."""

from __future__ import annotations

import re

import pytest

from tests.scenarios.cases import in_group
from tests.scenarios.control_group import why_not
from tests.scenarios.judge import judge
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

NO_GROUP = {"s04_quota": why_not("cpu"), "s09_thrash": why_not("memory")}
CASES = tuple(case for case in in_group("machine") if NO_GROUP.get(case.script) is None)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played. Contending threads play alone, since others on their CPU would preempt them."""
    alone = [case for case in CASES if case.script == "s06_threads"]
    together = [case for case in CASES if case not in alone]
    make = tmp_path_factory.mktemp
    return play(together, make("together")) | play(alone, make("alone"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_cause_is_named_and_nothing_else(outcomes: dict[str, Outcome], case: object) -> None:
    outcome = outcomes[str(getattr(case, "id", ""))]
    finding = outcome.found()
    judgement = judge(outcome.case, outcome.findings)
    assert judgement.exact, (judgement.wrong, outcome.report())
    gain = finding["gain_ceiling_ratio"]
    assert gain is not None
    assert 0 <= gain < 1


@pytest.mark.parametrize("script", NO_GROUP)
def test_control_groups_can_be_made(script: str) -> None:
    """So that what was not played is seen in the report."""
    reason = NO_GROUP[script]
    if reason is not None:
        pytest.skip(f"{script} was not played: {reason}")


@pytest.mark.skipif(NO_GROUP["s04_quota"] is not None, reason=str(NO_GROUP["s04_quota"]))
def test_the_quota_is_named_with_its_own_number(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s04_quota"].found()
    raised = re.search(r"to about (\d+) CPUs", finding["advice"])
    assert raised is not None
    assert int(raised[1]) >= 1


def test_fewer_workers_give_back_what_they_burn_and_no_more(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s03_oversubscribed"].found()
    assert "For more speed, reading a sample must need less CPU time" in finding["advice"]
