"""S43: one rank that waits for data keeps the others waiting."""

from __future__ import annotations

import re

import pytest

from loaderwatch.core.facts import AT_WORK
from loaderwatch.detect.finding import Finding, texts_of
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, run
from tests.unit.detect.workers import only


def test_the_one_rank_that_keeps_the_others_waiting() -> None:
    slow, fast = RankBuilder(1, 2), RankBuilder(0, 2)
    for number in range(200):
        slow.fetch(number % 2, 0.3, cpu=0.1).step(0.13, 0.02, backward_ns=int(0.001 * S))
        fast.fetch(number % 2, 0.02, cpu=0.1).step(0.001, 0.149, ready=4, backward_ns=int(0.13 * S))
    finding = only(run(fast, slow))
    assert (finding.scenario, finding.rank) == ("S43", 1)
    assert "rank 0 waits for rank 1" in finding.title
    assert "waits for rank 1 in backward, 129 ms per iteration" in finding.cause
    assert "rank 0 在反向里花 129 毫秒等 rank 1" in texts_of(finding, "zh").cause


def straggler(fetch_s: float, *, found_at_work: bool = False) -> Finding:
    """Rank 1 waits for its workers (300 ms a batch); rank 0, whose workers take ``fetch_s``, for rank 1."""
    slow, next_one = RankBuilder(1, 2), RankBuilder(0, 2)
    for number in range(200):
        slow.fetch(number % 2, 0.3, cpu=0.1).step(0.13, 0.02)
        next_one.fetch(number % 2, fetch_s, cpu=0.1).step(0.001, 0.149, ready=4)
    if found_at_work:
        slow.process(worker=1, pid=201, cpu=0.1).stack(1, 201, stacks.WORKER, why=AT_WORK)
    return only(run(next_one, slow))


def test_the_rank_that_would_be_next_is_said() -> None:
    """Rank 0 waits for rank 1 while its own workers read ahead, which hides that they are too slow."""
    hidden, alone = straggler(0.2), straggler(0.02)
    assert (hidden.scenario, hidden.rank) == (alone.scenario, alone.rank) == ("S43", 1)
    assert "Rank 0 is too slow as well" in hidden.cause
    assert "need 100 ms per batch" in hidden.cause
    assert hidden.advice.startswith("Fix rank 1 on box, and rank 0 as well.")
    assert hidden.gain_ceiling_ratio == pytest.approx(1 / 3, abs=0.01)
    assert "as well" not in alone.cause
    assert alone.gain_ceiling_ratio is not None
    assert alone.gain_ceiling_ratio > 0.8


@pytest.mark.parametrize("found_at_work", [True, False])
@pytest.mark.parametrize("fetch_s", [0.2, 0.02])
def test_all_that_is_known_of_its_wait_is_said_in_order(fetch_s: float, found_at_work: bool) -> None:
    finding = straggler(fetch_s, found_at_work=found_at_work)
    said = [
        "An iteration takes",
        "Rank 0 waits for rank 1",
        "A worker needs",
        "was running data.py:42",
        "Rank 0 is too slow as well",
    ]
    told = [True, True, True, found_at_work, fetch_s > 0.1]
    expected = [words for words, is_told in zip(said, told, strict=True) if is_told]
    assert [words for words in said if words in finding.cause] == expected
    places = [finding.cause.index(words) for words in expected]
    assert places == sorted(places)
    assert not re.search(r"  |^ | $", finding.cause)
    assert bool(finding.stacks) is found_at_work
    also = [("found-at-work", found_at_work), ("next-straggler", fetch_s > 0.1)]
    assert [text.id for text in finding.also] == [rule for rule, is_told in also if is_told]


def test_a_rank_that_is_as_slow_is_no_bystander() -> None:
    """If all workers are too slow, chance decides which rank is last. Fixing that rank gains nothing."""
    finding = straggler(0.29)
    assert (finding.scenario, finding.rank) == ("S02", None)
    assert finding.title.startswith("Both ranks wait for data (up to 87 % of 15 s): 2 workers deliver")
    assert "Raise num_workers 2 →" in finding.advice
