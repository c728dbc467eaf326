"""Two real gloo ranks that wait for each other: the odd one must be named."""

from __future__ import annotations

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, line_of, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CASES = in_group("ranks")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


@pytest.mark.parametrize("case", [case for case in CASES if case.stacks], ids=lambda case: case.id)
def test_a_hang_is_told_once_the_limit_has_passed(outcomes: dict[str, Outcome], case: Case) -> None:
    """And how soon after that, ``python -m benchmarks.diagnosis`` measures."""
    assert outcomes[case.id].late_s() >= 0


def test_a_rank_with_a_slow_loader(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s43_straggler"].found()
    assert finding["rank"] == 1
    assert "rank 0 waits for rank 1" in finding["title"]


def test_unequal_number_of_batches(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s44_unequal"].found()
    assert finding["rank"] == 1
    backward, barrier = (line_of("s44_unequal.py", call) for call in (".backward()", "dist.barrier()"))
    assert finding["title"] == (
        "Rank 1 has 34 batches in epoch 0, rank 0 only 30: rank 1 waits for rank 0 in `backward` at"
        f" s44_unequal.py:{backward} in <module>."
    )
    assert (
        "Rank 1 is in batch 31 of epoch 0" in finding["cause"]
    )  # DDP's collective of batch 30 ended without rank 0
    assert "rank 0 ended epoch 0 after 30 batches and is now in `barrier`" in finding["cause"]
    evidence = {item["label"]: item["value"] for item in finding["evidence"]}
    assert evidence["rank 1 stands in"] == f"backward (s44_unequal.py:{backward} in <module>)"
    assert evidence["rank 0 stands in"] == f"barrier (s44_unequal.py:{barrier} in <module>)"
    assert {stack["rank"] for stack in finding["stacks"]} == {0, 1}
    texts = {stack["rank"]: stack["text"] for stack in finding["stacks"]}
    assert f's44_unequal.py", line {backward} in <module>' in texts[1]
    assert f's44_unequal.py", line {barrier} in <module>' in texts[0]
