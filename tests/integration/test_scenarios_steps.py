"""Long steps and a resume, for real: named, and the loader is not blamed."""

from __future__ import annotations

import shutil

import pytest

from tests.scenarios.cases import in_group
from tests.scenarios.play import Outcome, play

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated GPU needs a C compiler"),
]

CASES = in_group("steps")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


def test_garbage_collector(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s25_collector"].found()
    assert "garbage collection" in finding["title"]
    assert finding["gain_ceiling_ratio"] > 0.1


def test_work_in_the_loop_is_a_remark(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s26_logging"].found()
    assert finding["severity"] == "info"
    assert "every 20 steps" in finding["title"]


@pytest.mark.parametrize(
    ("script", "what"),
    [("s26_posted", "the network"), ("s26_piped", "a pipe")],
)
def test_a_wait_for_others_in_each_step(outcomes: dict[str, Outcome], script: str, what: str) -> None:
    finding = outcomes[script].found()
    assert (finding["severity"], finding["rank"]) == ("warning", 0)
    assert f"waits for {what} " in finding["title"]
    assert f", at {script}.py" in finding["title"]


def test_a_metric_that_grows_with_each_step(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s26_grown"].found()
    assert finding["severity"] == "warning"
    assert "not the data loader" in finding["title"]


@pytest.mark.parametrize("script", ["s26_hooked", "s26_bank"])
def test_a_model_that_gathers(outcomes: dict[str, Outcome], script: str) -> None:
    finding = outcomes[script].found()
    assert finding["severity"] == "warning"
    assert "a slower model pass (same batch size)" in finding["title"]
    assert ", seen at s26_hooked.py" in finding["title"]


def test_an_optimizer_that_slows_down(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s26_denormals"].found()
    assert finding["severity"] == "warning"
    assert "a slower optimizer" in finding["title"]
    assert "set_flush_denormal" in finding["advice"]


def test_a_rank_that_has_all_of_the_long_samples(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s48_long_samples"].found()
    assert (finding["severity"], finding["rank"]) == ("warning", 1)
    assert "times as large as those of the other ranks" in finding["cause"]


def test_a_metric_that_takes_as_long_in_each_step(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s26_scored"].found()
    assert finding["severity"] == "warning"
    assert "to script code, seen at s26_scored.py" in finding["title"]


def test_new_shapes(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s27_shapes"].found()
    assert "new size" in finding["title"]


def test_batches_padded_to_one_long_sample(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s27_padded"].found()
    assert finding["severity"] == "warning"
    assert "with batches about" in finding["title"]


def test_a_throttled_gpu(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s48_throttled"].found()
    assert finding["rank"] == 1
    assert "hardware thermal slowdown" in finding["title"]
    assert "61 %" in finding["title"]


def test_copies_to_the_gpu(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s17_copies"].found()
    assert "39 MB" in finding["title"]
    assert "pin_memory=True" in finding["advice"]


def test_a_resume_is_a_remark(outcomes: dict[str, Outcome]) -> None:
    outcome = outcomes["s34_fast_forward"]
    finding = outcome.found()
    assert finding["severity"] == "info"
    assert any("fast-forwarding" in verdict for verdict in outcome.verdicts), outcome.report()
