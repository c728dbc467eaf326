"""Real input-bound trainings: each script has one cause built in, which must be found."""

from __future__ import annotations

import re

import pytest

from tests.scenarios.cases import in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CASES = in_group("input")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


def test_serial_loading(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s01_serial"].found()
    assert finding["severity"] == "critical"
    assert "num_workers=0" in finding["title"]
    advised = re.search(r"num_workers=(\d+)", finding["advice"])
    assert advised is not None
    assert int(advised[1]) >= 2


def test_too_few_workers(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s02_few_workers"].found()
    advised = re.search(r"num_workers 2 → (\d+)", finding["advice"])
    assert advised is not None
    assert 6 <= int(advised[1]) <= 12  # eight steps fit into one fetch
    assert finding["gain_ceiling_ratio"] > 0.5


def test_latency_bound(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s08_latency_bound"].found()
    assert "storage or network" in finding["title"]


def test_one_slow_sample(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s20_slow_sample"].found()
    assert finding["sample_indices"] == [333]
    assert finding["worker"] in (0, 1)
    assert "dataset[333]" in finding["title"]
