"""Costly epoch boundaries, for real."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("epochs")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


def test_a_sampler_that_shuffles_millions(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s15_sampler"].found()
    assert "sampler" in finding["title"]
    assert finding["gain_ceiling_ratio"] > 0.1


def test_workers_started_anew(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s28_restart"].found()
    assert "spawn" in finding["title"]
    assert "persistent_workers=True" in finding["advice"]
    assert finding["gain_ceiling_ratio"] > 0.1


def test_a_loader_built_in_every_epoch(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s28_rebuilt"].found()
    assert "a new DataLoader is made for every epoch" in finding["title"]
    assert "Make the DataLoader once" in finding["advice"]


def test_reset_drain(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s30_reset_drain"].found()
    drained = {item["label"]: item["value"] for item in finding["evidence"]}["batches thrown away"]
    assert drained >= 8
    assert "break" in finding["cause"]


def test_teardown(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s31_teardown"].found()
    assert finding["lost_s"] > 2


def test_rebuilt_for_every_step(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s32_rebuilt"].found()
    assert "next(iter(loader))" in finding["cause"]


def test_shuffle_buffer(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s33_shuffle_buffer"].found()
    assert "shuffle buffer" in finding["cause"]
