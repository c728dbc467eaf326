"""Two real gloo ranks that wait for each other: the odd one must be named."""

from __future__ import annotations

import inspect

import pytest
from torch.nn.parallel import DistributedDataParallel

from tests.scenarios.cases import in_group
from tests.scenarios.play import Outcome, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CASES = in_group("ranks")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


def test_a_rank_with_a_slow_loader(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s43_straggler"].found()
    assert finding["rank"] == 1
    assert "rank 0 waits for rank 1" in finding["title"]


def test_unequal_number_of_batches(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s44_unequal"].found()
    assert finding["rank"] == 1
    assert "Rank 1 has 34 batches in epoch 0, rank 0 has 30" in finding["title"]
    assert "rank 0" in finding["cause"]
    assert any("s44_unequal.py" in stack["text"] for stack in finding["stacks"])


def test_validation_through_the_wrapped_model(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s46_validation"].found()
    assert "buffer sync" in finding["title"]
    assert "did not run the same number of those forward passes" in finding["cause"]
    assert "validation" in finding["cause"]
    assert "model.module(x)" in finding["advice"]
    assert "torch.no_grad()" in finding["advice"]
    known = inspect.signature(DistributedDataParallel).parameters
    option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    assert f"{option}=False" in finding["advice"]
    assert {stack["rank"] for stack in finding["stacks"]} == {0, 1}


def test_different_collectives(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s45_collectives"].found()
    assert "rank 0 in barrier and rank 1 in backward" in finding["title"]
    assert len(finding["stacks"]) == 2


def test_one_rank_does_something_long(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s47_one_rank"].found()
    assert finding["rank"] == 0
    assert "in prepare" in finding["title"]
