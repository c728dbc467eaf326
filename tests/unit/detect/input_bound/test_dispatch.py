"""S18: one rank reads for all."""

from __future__ import annotations

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.texts.formats import listing
from tests.unit.detect.build import RankBuilder, loader, run
from tests.unit.detect.workers import alerts, only, starve


def receiver(
    number: int, world: int, *, wait: float = 0.06, step: float = 0.02, **fields: object
) -> RankBuilder:
    """A rank that gets its batches from another."""
    rank = RankBuilder(
        number,
        world,
        loaders=[loader(class_name="generator", name="dispatched", num_workers=None, batches=None, **fields)],
    )
    for _ in range(400):
        rank.step(wait, step)
    return rank


def reader(world: int, batches: int) -> RankBuilder:
    """Rank 0, which reads ``batches`` in each iteration of 80 ms."""
    rank = RankBuilder(0, world, loaders=[loader(num_workers=2)])
    for number in range(400 * batches):
        rank.fetch(number % 2, 0.14 / batches, cpu=0.1).step(0.05 / batches, 0.03 / batches)
    return rank


@pytest.mark.parametrize("world", [2, 4, 8])
def test_one_rank_reads_one_batch_for_each(world: int) -> None:
    window = run(reader(world, world), *(receiver(number, world) for number in range(1, world)), cpus=32)
    finding = only(window)
    assert (finding.scenario, finding.rank) == ("S18", 0)
    assert f"rank 0 alone reads for all {world} ranks" in finding.title
    receivers = listing([str(number) for number in range(1, world)])
    assert finding.title.startswith(
        "Rank 1 waits for data (7" if world == 2 else f"Ranks {receivers} wait for data (up to 7"
    )
    assert "dispatch_batches=False" in finding.advice
    assert "Rank 0 has 2 workers" in finding.cause


def test_one_rank_reads_large_batches_and_cuts_them_up() -> None:
    assert only(run(reader(2, 1), receiver(1, 2))).scenario == "S18"


def test_accelerates_dispatcher_is_known_by_name() -> None:
    """Its inner loader is not ours to see."""
    ranks = [receiver(number, 2) for number in range(2)]
    for rank in ranks:
        rank.loaders = [loader(class_name="DataLoaderDispatcher", num_workers=None)]
    assert only(run(*ranks)).scenario == "S18"


def test_every_rank_reads_for_itself() -> None:
    ranks = [starve(RankBuilder(n, 2), fetch=0.2, step=0.02, cpu=0.1, seed=n) for n in range(2)]
    assert alerts(run(*ranks)) == ["S02"]


def test_no_rank_has_a_loader_of_pytorch() -> None:
    """DALI and similar loaders: nothing is known of their readers."""
    findings = detect(RunEvidence(run(receiver(0, 2), receiver(1, 2))))
    assert {finding.scenario for finding in findings} == {"S01"}


def test_a_learner_beside_an_actor() -> None:
    """Ranks that do different things at different speeds are not coupled."""
    assert "S18" not in alerts(run(reader(2, 40), receiver(1, 2)))


def test_a_rank_that_has_not_begun() -> None:
    """One rank of two is known yet."""
    assert alerts(run(starve(RankBuilder(0, 2), fetch=0.2, step=0.02, cpu=0.1))) == ["S02"]
