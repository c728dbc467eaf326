"""What other numbers of workers would give."""

from __future__ import annotations

import pytest

from loaderwatch.advise.whatif import what_if
from tests.unit.detect.build import RankBuilder, loader, run


def starved(cpu: float) -> RankBuilder:
    builder = RankBuilder()
    for _ in range(100):
        builder.fetch(0, 0.12, cpu=cpu).fetch(1, 0.12, cpu=cpu).step(0.08, 0.02).step(0.0, 0.02)
    return builder


def test_options_go_up_to_where_more_brings_nothing() -> None:
    options = what_if(run(starved(0.9), cpus=4), 0, 0)
    assert [option.num_workers for option in options] == [1, 2, 3, 4, 5, 6]
    assert options[-1].steps_per_s == pytest.approx(50)
    assert options[1].gain_ratio == pytest.approx(0.0)
    assert options[-1].gain_ratio == pytest.approx(1 - 0.02 / 0.06, abs=0.01)
    assert [option.fits_cpus for option in options] == [True] * 4 + [False] * 2


def test_workers_that_only_wait_need_no_cpu_of_their_own() -> None:
    assert all(option.fits_cpus for option in what_if(run(starved(0.05), cpus=2), 0, 0))


def test_without_workers_the_wait_is_the_fetch() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(60):
        builder.step(0.05, 0.025)
    assert [option.num_workers for option in what_if(run(builder), 0, 0)] == [1, 2]


def test_nothing_to_say() -> None:
    assert what_if(run(starved(0.9)), 7, 0) == []
    assert what_if(run(starved(0.9)), 0, 7) == []
    builder = RankBuilder(loaders=[loader(num_workers=None)])
    for _ in range(60):
        builder.step(0.05, 0.025)
    assert what_if(run(builder), 0, 0) == []
