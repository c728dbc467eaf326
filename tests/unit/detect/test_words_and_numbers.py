"""Phrases, robust statistics, periods, ceilings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.detect import text as phrases
from loaderwatch.detect.measures import gain as ceiling
from loaderwatch.detect.measures import statistics
from loaderwatch.detect.measures.statistics import autocorrelation, comb_period


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4 ms"),
        (0.118, "118 ms"),
        (2.44, "2.4 s"),
        (47.2, "47 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert phrases.duration(seconds) == text


def test_phrases() -> None:
    assert phrases.percent(0.62) == "62 %"
    assert phrases.percent(0.013) == "1.3 %"
    assert phrases.count(1, "batch") == "1 batch"
    assert phrases.count(2, "batch") == "2 batches"
    assert phrases.listing(["a", "b", "c"]) == "a, b and c"
    assert phrases.listing([str(n) for n in range(9)]) == "0, 1, 2 and 6 more"
    assert phrases.ranks_phrase([3], 8) == "Rank 3"
    assert phrases.ranks_phrase([0, 2], 8) == "Ranks 0 and 2"
    assert phrases.ranks_phrase(list(range(8)), 8) == "All 8 ranks"
    assert phrases.ranks_phrase([0], 1) == "Training"


def test_robust_statistics_ignore_the_unknown() -> None:
    values = np.array([1.0, np.nan, 3.0])
    assert (statistics.mean(values), statistics.median(values), statistics.total(values)) == (2.0, 2.0, 4.0)
    assert math.isnan(statistics.mean(np.array([np.nan])))
    assert math.isnan(statistics.ratio(1, 0))


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


def test_ceilings_never_promise_more_than_computing_allows() -> None:
    assert ceiling.workers_needed(0.118, 0.021) == 6
    after = ceiling.iteration_with(0.118, 6, 0.021)
    assert after == 0.021
    assert ceiling.gain_ratio(0.0598, after) == pytest.approx(0.649, abs=0.001)
    assert ceiling.gain_ratio(0.02, 0.03) == 0.0
    assert ceiling.gain_ratio(0.0, 0.03) is None
    assert ceiling.prefetch_needed(1.5, 0.12, 2) == 8


@given(fetch=st.floats(1e-4, 100), step=st.floats(1e-4, 100), workers=st.integers(1, 64))
def test_gain_is_a_share(fetch: float, step: float, workers: int) -> None:
    now = ceiling.iteration_with(fetch, workers, step)
    more = ceiling.iteration_with(fetch, workers + 1, step)
    gain = ceiling.gain_ratio(now, more)
    assert gain is not None
    assert 0 <= gain < 1
    assert more >= step
