"""Means with their noise: how often equal runs count as different, and how often different runs do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from loaderwatch.advise.comparison.compare import difference, mean_of, t_95


def course(rng: np.random.Generator, mean: float, values: int, alike: float) -> NDArray[np.float64]:
    """Values whose neighbours are alike: an autoregressive process of first order."""
    found = np.empty(values)
    state = rng.normal()
    for place in range(values):
        found[place] = mean + state
        state = alike * state + math.sqrt(1 - alike**2) * rng.normal()
    return found


@pytest.mark.parametrize(("values", "alike"), [(10, 0.0), (30, 0.0), (60, 0.3), (60, 0.6)])
def test_two_runs_alike_are_seldom_told_apart(values: int, alike: float) -> None:
    rng = np.random.default_rng(values)
    told = 0
    for _ in range(400):
        a, b = (mean_of(course(rng, 10.0, values, alike)) for _ in "ab")
        assert a is not None
        assert b is not None
        by, half = difference(a, b)
        told += abs(by) > half
    assert told / 400 < 0.09


def test_two_that_differ_are_told_apart() -> None:
    rng = np.random.default_rng(1)
    a, b = mean_of(course(rng, 10.0, 60, 0.3)), mean_of(course(rng, 12.0, 60, 0.3))
    assert a is not None
    assert b is not None
    by, half = difference(a, b)
    assert by - half > 0


def test_what_never_varies_has_no_noise() -> None:
    a, b = mean_of(np.full(8, 2.0)), mean_of(np.full(8, 3.0))
    assert a is not None
    assert b is not None
    assert difference(a, b) == (1.0, 0.0)


def test_few_values_have_a_mean_and_no_interval() -> None:
    few = mean_of(np.array([1.0, math.nan, 3.0]))
    assert few is not None
    assert (few.mean, few.values) == (2.0, 2)
    assert math.isnan(few.half_width)
    assert math.isnan(difference(few, few)[1])
    assert mean_of(np.array([math.nan])) is None


def test_quantiles_are_those_of_fewer_degrees_of_freedom() -> None:
    assert (t_95(4.9), t_95(14), t_95(1e9), t_95(0.5)) == (2.776, 2.179, 1.98, 12.71)
    assert math.isnan(t_95(math.nan))
