"""Healthy runs and look-alikes of faults, for real: nobody is to be woken by them."""

from __future__ import annotations

import pytest

from tests.scenarios.play import Case, Outcome, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CASES = (
    Case("healthy"),
    Case("healthy_ranks", ranks=2),
    Case("n01_validation"),
    Case("n02_checkpoint"),
    Case("n03_first_step"),
    Case("n04_cold_cache"),
    Case("n05_accumulation"),
    Case("n07_debugger", within_s=-5),
    Case("n15_early_stop"),
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played to their end."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.script)
def test_nobody_is_woken(outcomes: dict[str, Outcome], case: Case) -> None:
    outcome = outcomes[case.script]
    assert not outcome.alerts, outcome.report()
    assert any("Healthy" in verdict or "watching" in verdict for verdict in outcome.verdicts), (
        outcome.report()
    )
