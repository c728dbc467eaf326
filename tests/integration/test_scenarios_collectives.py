"""Ranks that stand in different collectives, or outside of any, for real."""

from __future__ import annotations

import inspect

import pytest
from torch.nn.parallel import DistributedDataParallel

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, line_of, play

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CASES = in_group("collectives")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", [case for case in CASES if case.stacks], ids=lambda case: case.id)
def test_a_hang_is_told_once_the_limit_has_passed(outcomes: dict[str, Outcome], case: Case) -> None:
    assert outcomes[case.id].late_s() >= 0


def test_validation_through_the_wrapped_model(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s46_validation"].found()
    assert "buffer sync" in finding["title"]
    assert "The ranks ran different numbers of forward passes" in finding["cause"]
    assert "validation" in finding["cause"]
    assert "model.module(x)" in finding["advice"]
    assert "torch.no_grad()" in finding["advice"]
    known = inspect.signature(DistributedDataParallel).parameters
    option = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
    assert f"{option}=False" in finding["advice"]
    assert {stack["rank"] for stack in finding["stacks"]} == {0, 1}


def test_different_collectives(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s45_collectives"].found()
    barrier, backward = (line_of("s45_collectives.py", call) for call in ("dist.barrier()", ".backward()"))
    assert f"rank 0 in `barrier` at s45_collectives.py:{barrier} in <module>" in finding["title"]
    assert f"rank 1 in `backward` at s45_collectives.py:{backward} in <module>" in finding["title"]
    assert len(finding["stacks"]) == 2


def test_one_rank_does_something_long(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s47_one_rank"].found()
    assert finding["rank"] == 0
    assert "in prepare" in finding["title"]
