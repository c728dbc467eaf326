"""Recreated loaders count as one loader; loaders that are used side by side do not."""

from __future__ import annotations

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.rebuilt_loaders import joined, joined_rank
from loaderwatch.detect.window import RankWindow
from tests.unit.detect.build import RankBuilder, S, loader, run


def alike(count: int, **fields: object) -> list[LoaderInfo]:
    return [
        loader(loader=number, name="train" if not number else f"train-{number + 1}", **fields)
        for number in range(count)
    ]


def epoch(builder: RankBuilder, *numbers: int, number: int = 0, batches: int = 4) -> RankBuilder:
    """An epoch of these loaders, in turns."""
    for one in numbers:
        builder.epoch[one], builder.batch[one] = number, 0
        builder.add("epoch_begins", loader=one, epoch=number, iter_ns=S // 100, first_wait_ns=S // 100)
        builder.now_ns += S // 50
    for _ in range(batches):
        for one in numbers:
            builder.fetch(0, 0.01, loader=one).step(0.001, 0.1, loader=one)
    for one in numbers:
        builder.add("epoch_ends", loader=one, epoch=number, teardown_ns=0, batches=batches)
    return builder


def names(rank: RankWindow) -> list[str]:
    return [info.name for info in rank.process.loaders]


def test_one_after_the_other_is_one() -> None:
    builder = RankBuilder(loaders=alike(3))
    for number in range(3):
        epoch(builder, number)
    builder.open("wait", 1.0, loader=2, epoch=0).worker(0, "fetch", 1.0, loader=2)
    rank = joined_rank(builder.build())
    assert names(rank) == ["train"]
    assert rank.table("epoch_begins")["epoch"].tolist() == [0, 1, 2]
    assert rank.table("epoch_ends")["epoch"].tolist() == [0, 1, 2]
    assert set(rank.table("steps")["loader"].tolist()) == set(rank.table("fetches")["loader"].tolist()) == {0}
    assert rank.rebuilt == {(0, 1), (0, 2)}
    assert rank.span is not None
    assert (rank.span.loader, rank.span.epoch) == (0, 2)
    assert rank.workers[0].loader == 0


def test_nothing_to_join_is_the_same_window() -> None:
    for loaders in (alike(1), [loader(), loader(loader=1, name="val", role="eval")]):
        builder = RankBuilder(loaders=loaders)
        for one in loaders:
            epoch(builder, one.loader)
        window = run(builder)
        assert joined(window) is window


def test_two_that_are_zipped_stay_two() -> None:
    builder = RankBuilder(loaders=alike(2))
    epoch(builder, 0, 1)
    assert names(joined_rank(builder.build())) == ["train", "train-2"]


def test_two_that_are_zipped_and_built_anew_are_two() -> None:
    builder = RankBuilder(loaders=alike(6))
    for number in (0, 2, 4):
        epoch(builder, number, number + 1)
    rank = joined_rank(builder.build())
    assert names(rank) == ["train", "train-2"]
    assert set(rank.table("steps")["loader"].tolist()) == {0, 1}
    assert sorted(rank.table("epoch_begins")["epoch"].tolist()) == [0, 0, 1, 1, 2, 2]


def test_two_that_take_turns_stay_two() -> None:
    builder = RankBuilder(loaders=alike(2))
    for number in range(3):
        epoch(builder, 0, number=number)
        epoch(builder, 1, number=number)
    assert names(joined_rank(builder.build())) == ["train", "train-2"]


def test_the_name_stays_when_the_oldest_rows_are_gone() -> None:
    builder = RankBuilder(loaders=alike(6))
    for number in range(2, 6):
        epoch(builder, number)
    rank = joined_rank(builder.build())
    assert set(rank.table("steps")["loader"].tolist()) == {0}
    assert names(rank) == ["train"]


def test_the_newest_is_one_of_them_before_its_first_batch() -> None:
    builder = RankBuilder(loaders=alike(3))
    for number in range(2):
        epoch(builder, number)
    builder.open("wait", 1.0, loader=2, epoch=0)
    rank = joined_rank(builder.build())
    assert names(rank) == ["train"]
    assert rank.span is not None
    assert (rank.span.loader, rank.span.epoch) == (0, 2)


def test_shared_memory_is_counted_once() -> None:
    """Thirty loaders that follow each other never have their batches there at the same time."""
    builder = RankBuilder(loaders=alike(30, num_workers=2, prefetch_factor=2))
    for number in range(30):
        epoch(builder, number)
    small = {"shm_total_bytes": 40e6, "shm_used_bytes": 1e6}
    assert not [
        finding for finding in detect(RunEvidence(run(builder, host=small))) if finding.scenario == "S39"
    ]
