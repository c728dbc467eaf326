"""The epochs of a loader by their parts."""

from __future__ import annotations

from loaderwatch.core.records import EndedBy, IterKind
from loaderwatch.server.queries.live_answers import boundaries_of
from tests.unit.detect.build import RankBuilder, S, loader, run


def _epoch(rank: RankBuilder, number: int, *, first: float, gap: float = 0.0, of: int = 0) -> None:
    """An epoch of three batches: 0.4 s of iter(loader), 0.1 s of it in the sampler, and 0.2 s of teardown."""
    gap_ns = {"gap_ns": int(gap * S)} if gap else {}
    rank.now_ns += int(gap * S)
    rank.add(
        "epoch_begins", loader=of, epoch=number, iter_ns=int(0.4 * S), sampler_ns=int(0.1 * S),
        first_wait_ns=int(first * S), iter_kind=IterKind.STARTED, workers=2, drained=0, **gap_ns,
    )  # fmt: skip
    rank.now_ns += int(0.4 * S)
    rank.batch[of], rank.epoch[of] = 0, number
    for wait in (first, 0.05, 0.05):
        rank.step(wait, 1.0, loader=of)
    rank.add(
        "epoch_ends", loader=of, epoch=number, teardown_ns=int(0.2 * S), batches=3, ended_by=EndedBy.EXHAUSTED
    )
    rank.now_ns += int(0.2 * S)


def test_an_epoch_is_told_by_its_parts_and_what_its_boundary_cost() -> None:
    rank = RankBuilder()
    _epoch(rank, 0, first=0.8)
    _epoch(rank, 1, first=0.3, gap=1.5)
    (one,) = boundaries_of(run(rank), 0, 100)
    assert (one.name, one.role, one.epochs) == ("train_loader", "train", 2)
    first, second = one.newest
    assert [round(v or 0, 6) for v in (first.start_s, first.sampler_s, first.first_batch_s)] == [
        0.3,
        0.1,
        0.8,
    ]
    assert [round(v or 0, 6) for v in (first.steady_s, first.teardown_s, first.gap_s)] == [3.1, 0.2, 1.5]
    assert (first.iter_kind, first.ended_by, first.batches, first.workers) == ("started", "exhausted", 3, 2)
    # The loop's own time between epochs is no cost of theirs, and a usual wait would have been there anyway.
    assert round(first.cost_s, 6) == round(0.4 + 0.75 + 0.2, 6)
    assert round(one.cost_s, 6) == round(first.cost_s + second.cost_s, 6)
    assert second.gap_s is None


def test_an_epoch_that_goes_on_has_neither_a_steady_part_nor_an_end() -> None:
    rank = RankBuilder()
    rank.add("epoch_begins", loader=0, epoch=0, iter_ns=int(0.4 * S), first_wait_ns=S, iter_kind=99)
    ((going,),) = (one.newest for one in boundaries_of(run(rank), None, 100))
    assert (going.steady_s, going.teardown_s, going.ended_at, going.ended_by) == (None, None, None, None)
    assert (going.iter_kind, going.sampler_s, going.cost_s) == (None, None, 1.4)


def test_only_the_newest_are_listed_and_all_are_counted() -> None:
    rank = RankBuilder()
    for number in range(5):
        _epoch(rank, number, first=0.3)
    (one,) = boundaries_of(run(rank), 0, 2)
    assert [epoch.epoch for epoch in one.newest] == [3, 4]
    assert (one.epochs, round(one.cost_s, 6)) == (5, round(5 * (0.4 + 0.25 + 0.2), 6))


def test_a_loader_that_is_built_anew_for_each_epoch_is_one() -> None:
    loaders = [
        loader(loader=number, name=f"train_loader-{number}" if number else "train_loader")
        for number in range(3)
    ]
    rank = RankBuilder(loaders=loaders)
    for number in range(3):
        _epoch(rank, 0, first=0.3, of=number)
    (one,) = boundaries_of(run(rank), 0, 100)
    assert (one.name, [epoch.epoch for epoch in one.newest]) == ("train_loader", [0, 1, 2])


def test_loaders_of_both_roles_are_told_and_those_never_iterated_are_not() -> None:
    loaders = [
        loader(),
        loader(loader=1, name="val_loader", role="eval"),
        loader(loader=2, name="unused", batch_size=1),
    ]
    rank = RankBuilder(loaders=loaders)
    _epoch(rank, 0, first=0.3)
    _epoch(rank, 0, first=0.3, of=1)
    assert [(one.name, one.role) for one in boundaries_of(run(rank), None, 100)] == [
        ("train_loader", "train"),
        ("val_loader", "eval"),
    ]
    assert boundaries_of(run(rank), 7, 100) == []
