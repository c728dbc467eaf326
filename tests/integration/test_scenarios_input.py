"""Input-bound training, for real: each script has one cause built in, and that cause is what must be found."""

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
    assert "a long wait every so many batches" in {item["label"] for item in finding["evidence"]}


def test_cpu_bound(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s07_cpu_bound"].found()
    assert "no CPU is free" in finding["title"]


def test_latency_bound(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s08_latency_bound"].found()
    assert "storage or network" in finding["title"]


def test_delivery(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s13_delivery"].found()
    assert "More workers or more prefetch will not help" in finding["advice"]


def test_threads_of_the_training_process(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s14_threads"].found()
    assert "More workers would make it worse" in finding["advice"]


def test_one_slow_sample(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s20_slow_sample"].found()
    assert finding["sample_indices"] == [333]
    assert finding["worker"] in (0, 1)
    assert "dataset[333]" in finding["title"]


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
