"""S12 S16 S19: making and handing over the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import only, starve


@settings(max_examples=20, deadline=None)
@given(
    share=st.floats(0.55, 0.99),
    workers=st.integers(1, 6),
    samples=st.integers(1, 512),
    slowness=st.floats(1.5, 6),
)
def test_collating_takes_most_of_a_fetch(share: float, workers: int, samples: int, slowness: float) -> None:
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    fetch = slowness * 0.03 * workers
    starve(
        rank,
        fetch=fetch,
        step=0.03,
        workers=workers,
        cpu=0.9,
        samples=samples,
        collate_ns=int(share * fetch * S),
    )
    finding = only(run(rank, cpus=64))
    assert finding.scenario == "S12"
    evidence = {item.label: item.value for item in finding.evidence}
    assert evidence["share of a fetch spent in collate_fn"] == pytest.approx(share, rel=0.1)
    assert finding.gain_ceiling_ratio is not None
    assert finding.gain_ceiling_ratio <= 1 - 1 / slowness + 0.1


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_collating_that_is_cheap(share: float) -> None:
    rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.9, collate_ns=int(share * 0.2 * S))
    assert only(run(rank, cpus=64)).scenario == "S02"


def delivering(**fields: Any) -> RankBuilder:
    """Batches lie ready, and unpacking them keeps the training thread busy."""
    rank = RankBuilder(loaders=[loader(prefetch_factor=4, **fields)])
    for number in range(100):
        rank.fetch(number % 2, 0.05, cpu=0.5).step(0.075, 0.3, ready=8, wait_cpu_ns=int(0.04 * S))
    return rank


@pytest.mark.parametrize("every", [1, 8, None])
def test_a_stateful_loader_ships_its_state(every: int | None) -> None:
    rank = delivering(class_name="StatefulDataLoader", snapshot_every_n_steps=every)
    finding = only(run(rank))
    assert finding.scenario == "S19"
    assert "snapshot_every_n_steps" in finding.advice
    if every is not None:
        assert f"snapshot_every_n_steps {every} →" in finding.advice


def test_rare_snapshots_are_not_what_batches_carry() -> None:
    rank = delivering(class_name="StatefulDataLoader", snapshot_every_n_steps=1000)
    assert only(run(rank)).scenario == "S13"


def test_another_loader_has_no_snapshots() -> None:
    assert only(run(delivering())).scenario == "S13"


def pinned(window: RunWindow, *, cuda: bool) -> RunWindow:
    """The same window of a process with or without a GPU."""
    ranks = {
        number: replace(rank, process=msgspec.structs.replace(rank.process, cuda=cuda))
        for number, rank in window.ranks.items()
    }
    return replace(window, ranks=ranks)


def handing_over(pin_memory: bool) -> RunWindow:
    """Batches lie ready, next() uses no CPU, and still takes long."""
    rank = RankBuilder(loaders=[loader(prefetch_factor=4, pin_memory=pin_memory)])
    for number in range(150):
        rank.fetch(number % 2, 0.05, cpu=0.5).step(0.12, 0.1, ready=6)
    return run(rank)


def test_the_pin_thread_is_the_limit() -> None:
    finding = only(pinned(handing_over(True), cuda=True))
    assert finding.scenario == "S16"
    assert "page-locked" in finding.cause


@pytest.mark.parametrize(("pin_memory", "cuda"), [(True, False), (False, True)])
def test_without_a_pin_thread_it_is_the_training_thread(pin_memory: bool, cuda: bool) -> None:
    """Without a GPU pin_memory does nothing."""
    assert only(pinned(handing_over(pin_memory), cuda=cuda)).scenario == "S14"
