"""Robust statistics, periods, growth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.detect.measures import statistics
from loaderwatch.detect.measures.statistics import autocorrelation, comb_period, growth, rising_fit
from tests.unit.detect.build import S


def test_moments_that_follow_a_clock_are_told_from_pauses_that_are_each_as_long() -> None:
    random, number = np.random.default_rng(7), np.arange(88)
    clocks = [0.16 * number + random.exponential(0.001, 88) for _ in range(200)]
    pauses = [np.cumsum(random.normal(0.16, 0.002, 88)) for _ in range(200)]
    assert sum(statistics.by_a_clock(each) for each in clocks) >= 198
    assert sum(statistics.by_a_clock(each) for each in pauses) <= 4
    one_stop = clocks[0] + np.where(number > 50, 3.0, 0.0)
    assert statistics.by_a_clock(one_stop)


def test_a_clock_that_is_behind_catches_up() -> None:
    """The clock is late at its start or after a late tick. The next ticks follow at once to catch up."""
    random = np.random.default_rng(7)
    held_up = np.where(np.arange(88) % 29 == 20, 0.5, random.exponential(0.001, 88))
    for behind_s in (0.0, 1.2):
        now_s, ticks = behind_s, []
        for number, late_s in enumerate(held_up):
            now_s = max(now_s + 0.01, 0.16 * number) + late_s
            ticks.append(now_s)
        assert statistics.by_a_clock(np.array(ticks))


def test_a_clock_may_be_behind_for_many_ticks() -> None:
    """A source misses a beat and is late until it catches up. A loop that sleeps longer never catches up."""
    random, number = np.random.default_rng(7), np.arange(210)
    told = {"clock": 0, "sleeps": 0}
    for _ in range(100):
        ends = np.cumsum(random.integers(4, 30, 60))
        behind_s = np.where(np.searchsorted(ends, number) % 2 == 1, 0.0167, 0.0)
        jitter_s = random.exponential(0.0001, 210)
        told["clock"] += statistics.by_a_clock(0.133 * number + behind_s + jitter_s)
        longer_s = np.abs(np.diff(behind_s, prepend=0.0))
        told["sleeps"] += statistics.by_a_clock(np.cumsum(0.133 + longer_s + jitter_s))
    assert told["clock"] >= 97
    assert told["sleeps"] <= 2


def test_robust_statistics_ignore_the_unknown() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert (statistics.mean(values), statistics.median(values), statistics.total(values)) == (2.0, 2.0, 4.0)
    assert math.isnan(statistics.mean(np.array([np.nan])))
    assert statistics.spread(np.array([1.0, np.nan, 3.0, 3.0, 90.0])) == 1.0
    assert math.isnan(statistics.spread(np.array([np.nan])))
    assert math.isnan(statistics.ratio(1, 0))
    absurd = np.array([1.7e308, 1.7e308, -1.7e308, 2.0])  # their sum overflows, and warnings are errors here
    assert (statistics.mean(absurd), statistics.total(absurd)) == (2.0, 2.0)


def test_one_outlier_among_few_does_not_raise_the_high_quantile() -> None:
    assert statistics.high(np.array([0.01] * 60 + [20.0]), 0.99) == 0.01
    assert statistics.high(np.array([0.01] * 60 + [20.0] * 3), 0.99) == 20.0


@settings(max_examples=60, deadline=None)
@given(
    workers=st.integers(2, 16),
    phase=st.integers(0, 15),
    rounds=st.integers(4, 30),
    seed=st.integers(0, 2**32 - 1),
    long=st.floats(0.05, 5.0),
)
def test_a_comb_has_the_period_of_its_workers(
    workers: int, phase: int, rounds: int, seed: int, long: float
) -> None:
    random = np.random.default_rng(seed)
    waits = np.full(workers * rounds, 0.001)
    waits[phase % workers :: workers] = long
    waits *= random.uniform(0.85, 1.15, waits.size)
    assert comb_period(waits, workers) == workers


@settings(max_examples=60, deadline=None)
@given(workers=st.integers(2, 8), seed=st.integers(0, 2**32 - 1))
def test_a_period_of_something_else_is_no_comb(workers: int, seed: int) -> None:
    waits = np.full(240, 0.001)
    waits[:: workers + 1] = 0.5  # validation every so often, say
    waits *= np.random.default_rng(seed).uniform(0.9, 1.1, waits.size)
    assert comb_period(waits, workers) is None


def test_flat_waits_have_no_period() -> None:
    assert math.isnan(autocorrelation(np.full(50, 0.1), 2))
    assert comb_period(np.full(50, 0.1), 2) is None
    assert comb_period(np.array([0.1, 0.0, 0.1]), 2) is None  # too few


def test_growth_needs_both_halves() -> None:
    t_ns = np.arange(20, dtype=np.int64) * S
    line = np.arange(20, dtype=np.float64)
    steady = growth(t_ns, line, 5.0)
    assert steady is not None
    assert steady.per_s == pytest.approx(1.0)
    assert steady.eta_s(10.0) == pytest.approx(10.0)
    assert growth(t_ns, np.minimum(line, 9.0), 5.0) is None
    assert growth(t_ns, np.maximum(line, 9.0), 5.0) is None
    assert growth(t_ns, -line, 5.0) is None
    assert growth(t_ns, line, 60.0) is None
    assert growth(t_ns, np.full(20, np.nan), 5.0) is None


def test_a_fit_that_never_falls() -> None:
    assert rising_fit(np.array([1.0, 3.0, 2.0, np.nan, 4.0])).tolist() == [1.0, 2.5, 2.5, 4.0]
    assert rising_fit(np.array([3.0, 2.0, 1.0])).tolist() == [2.0, 2.0, 2.0]
    assert rising_fit(np.array([np.nan])).size == 0


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_its_mean_is_that_of_the_values(values: list[float]) -> None:
    fit = rising_fit(np.array(values))
    assert fit.size == len(values)
    assert (np.diff(fit) >= 0).all()
    assert fit.mean() == pytest.approx(np.mean(values), abs=1e-6)


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (0, 0, 0.0, 1.0)],
)
def test_wilsons_interval(part: int, whole: int, low: float, high: float) -> None:
    """81 of 263 is the example of Newcombe, Statistics in Medicine 17 (1998), table I, method 3."""
    assert statistics.wilson(part, whole) == pytest.approx((low, high), abs=1e-4)
