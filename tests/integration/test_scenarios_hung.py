"""Hangs inside one process tree, for real: worker, sample, state and stack must be named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenarios.cases import Case, in_group
from tests.scenarios.play import Outcome, line_of, play

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CASES = in_group("hung")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """All scripts, played."""
    return play(CASES, tmp_path_factory.mktemp("scenarios"))


def stack_of(finding: dict[str, Any], worker: int) -> str:
    return next(str(stack["text"]) for stack in finding["stacks"] if stack["worker"] == worker)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_told_once_the_limit_has_passed(outcomes: dict[str, Outcome], case: Case) -> None:
    """And how soon after that, ``python -m benchmarks.diagnosis`` measures."""
    assert outcomes[case.id].late_s() >= 0


def test_endless_loop(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s22_endless_loop"].found()
    assert (finding["sample_indices"], finding["worker"]) == ([333], 1)  # batch 41 of two workers
    assert "s22_endless_loop.py" in stack_of(finding, 1)


def test_lock_held_at_fork(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s35_fork_lock"].found()
    assert finding["worker"] == 0
    assert "futex" in finding["title"]
    assert "s35_fork_lock.py" in stack_of(finding, 0)


def test_silent_storage(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s36_silent_read"].found()
    assert (finding["sample_indices"], finding["worker"]) == ([333], 1)
    assert f"worker 1 (pid {finding['pid']})" in finding["title"]
    assert "dataset[333]" in finding["title"]
    assert "pipe" in finding["title"]
    (stack,) = (stack for stack in finding["stacks"] if stack["worker"] == 1)
    assert stack["pid"] == finding["pid"]
    blocking = line_of("s36_silent_read.py", "os.read(")
    assert f"Worker 1 is at s36_silent_read.py:{blocking} in read" in finding["cause"]
    assert f's36_silent_read.py", line {blocking} in read\n' in stack["text"]


def test_stopped_worker(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s36_stopped"].found()
    assert finding["worker"] == 1
    assert f"kill -CONT {finding['pid']}" in finding["advice"]


def test_dead_worker(outcomes: dict[str, Outcome]) -> None:
    finding = outcomes["s37_dead_worker"].found()
    assert finding["worker"] == 1
    assert "dead" in finding["title"]


@pytest.mark.parametrize("script", ["s41_lost_message", "s41_prefetch_thread"])
def test_nobody_will_bring_the_batch(outcomes: dict[str, Outcome], script: str) -> None:
    finding = outcomes[script].found()
    assert finding["worker"] is None
    assert stack_of(finding, -1)
