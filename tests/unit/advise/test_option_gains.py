"""What options would bring that need no play: ranges, and what they rest on."""

from __future__ import annotations

from typing import Any

import pytest

from loaderwatch.advise.option_gains import Estimate, estimates_of
from loaderwatch.advise.whatif import what_if
from loaderwatch.core.records import IterKind
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, loader, run


def estimates(builder: RankBuilder) -> dict[str, Estimate]:
    window = run(builder, cpus=8)
    played = what_if(RunEvidence(window), 0, 0)
    assert played is not None
    return {one.change: one for one in estimates_of(window, 0, 0, played)}


def epochs(start_s: float = 2.0, **fields: Any) -> RankBuilder:
    """Three epochs of 7 s; each begins with workers that start."""
    builder = RankBuilder(loaders=[loader(batch_size=8, **fields)])
    for epoch in range(3):
        builder.epoch[0], builder.batch[0] = epoch, 0
        half_ns = int(start_s * S) // 2
        builder.add(
            "epoch_begins",
            loader=0,
            epoch=epoch,
            iter_ns=half_ns,
            first_wait_ns=half_ns,
            iter_kind=IterKind.STARTED,
        )
        builder.now_ns += 2 * half_ns
        for number in range(100):
            builder.fetch(number % 2, 0.1, cpu=0.05).step(0.03, 0.02)
    return builder


def test_kept_workers_save_their_start_but_not_the_first_batch() -> None:
    kept = estimates(epochs(persistent_workers=False))["persistent_workers=True"]
    assert kept.per_epoch_s == pytest.approx(2.0)
    assert kept.most_ratio == pytest.approx(2 / 7, rel=0.05)
    assert kept.least_ratio == pytest.approx(1.9 / 7, rel=0.05)
    assert "2 epochs" in kept.rests_on
    assert "persistent_workers=True" not in estimates(epochs(persistent_workers=True))


@pytest.mark.parametrize(
    ("method", "there"), [("spawn", True), ("forkserver", True), ("fork", False), (None, False)]
)
def test_another_start_method_saves_at_most_what_the_start_takes(method: str | None, there: bool) -> None:
    found = estimates(epochs(persistent_workers=False, start_method=method))
    assert ("multiprocessing_context='fork'" in found) is there
    if there:
        forked = found["multiprocessing_context='fork'"]
        assert forked.least_ratio == 0.0
        assert forked.per_epoch_s == pytest.approx(2.0)


def test_a_larger_batch_gives_a_loader_that_is_short_no_more_samples() -> None:
    larger = estimates(epochs())["batch_size=16"]
    assert larger.least_ratio == pytest.approx(0.0, abs=0.03)
    assert larger.most_ratio == pytest.approx(0.0, abs=0.03)
    quick = RankBuilder(loaders=[loader(batch_size=8)])
    for number in range(100):
        quick.fetch(number % 2, 0.01, cpu=0.05).step(0.0, 0.05)
    larger = estimates(quick)["batch_size=16"]
    assert larger.least_ratio == pytest.approx(0.0, abs=0.02)
    assert larger.most_ratio == pytest.approx(0.5, abs=0.02)  # the step takes as long as before


@pytest.mark.parametrize(
    ("cuda", "pinned", "there"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_pinned_memory_hides_the_copy_at_most(cuda: bool, pinned: bool, there: bool) -> None:
    builder = RankBuilder(loaders=[loader(batch_size=8, pin_memory=pinned)])
    builder.cuda = cuda
    for number in range(100):
        builder.fetch(number % 2, 0.01, cpu=0.05).step(0.0, 0.05, h2d_ns=int(0.005 * S))
    found = estimates(builder)
    assert ("pin_memory=True" in found) is there
    if there:
        assert found["pin_memory=True"].least_ratio == 0.0
        assert found["pin_memory=True"].most_ratio == pytest.approx(0.1, rel=0.05)


def test_a_loader_that_is_not_there() -> None:
    window = run(epochs(), cpus=8)
    played = what_if(RunEvidence(window), 0, 0)
    assert played is not None
    assert estimates_of(window, 0, 7, played) == []
