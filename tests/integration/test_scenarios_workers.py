"""Input-bound training whose cause lies in what the workers do and how batches are handed over, for real."""

from __future__ import annotations

import re

import pytest

from tests.scenarios.cases import in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("workers")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


def test_cpu_bound(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s07_cpu_bound"].found()
    assert "no CPU is free" in finding["title"]


def test_delivery(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s13_delivery"].found()
    assert "More workers or more prefetch will not help" in finding["advice"]


def test_threads_of_the_training_process(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s14_threads"].found()
    assert "More workers would make it worse" in finding["advice"]


def test_jitter_above_the_cushion(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s21_jitter"].found()
    advised = re.search(r"prefetch_factor=(\d+)", finding["advice"])
    assert advised is not None
    assert 8 <= int(advised[1]) <= 20  # 1.2 s of hiccup over two workers and 60 ms steps


def test_workers_without_shards(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s23_imbalance"].found()
    assert finding["worker"] == 3
    assert "Only 1 of 4 workers" in finding["title"]
    assert finding["gain_ceiling_ratio"] > 0.3
