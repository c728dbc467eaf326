"""Simulated loaders with other settings: against a second version of DataLoader's rules, and invariants."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.detect.measures.statistics import Floats
from loaderwatch.pipeline.simulation import Pipeline, Setting, iteration_s

times = st.lists(st.floats(0.001, 1.0), min_size=1, max_size=40).map(np.array)
workers = st.integers(1, 9)
factors = st.integers(1, 6)


def in_order_s(fetch_s: Floats, step_s: Floats, workers: int, factor: int, batches: int) -> float:
    """The mean iteration of the steady state, from what bounds each batch.

    A worker begins a batch after its last one, once the loop has taken the batch ``ahead`` places earlier.
    The loop takes a batch when the batch is ready and the step before is over.
    """
    ahead = workers * factor
    ended, taken = [0.0] * batches, [0.0] * batches
    for i in range(batches):
        asked = taken[i - ahead] if i >= ahead else 0.0
        before = ended[i - workers] if i >= workers else 0.0
        ended[i] = max(asked, before) + fetch_s[i % fetch_s.size]
        free = taken[i - 1] + step_s[(i - 1) % step_s.size] if i else 0.0
        taken[i] = max(free, ended[i])
    warm = min(ahead, batches // 2)
    return (taken[-1] - taken[warm - 1]) / (batches - warm)


@settings(max_examples=60, deadline=None)
@given(fetch_s=times, step_s=times, number=workers, factor=factors)
def test_batches_in_order_come_as_the_loaders_rules_say(
    fetch_s: Floats, step_s: Floats, number: int, factor: int
) -> None:
    batches = max(240, 12 * number * factor)
    expected = in_order_s(fetch_s, step_s, number, factor, batches)
    played = iteration_s(Pipeline(fetch_s, step_s), Setting(number, factor))
    assert played == pytest.approx(expected, rel=1e-6)


@settings(max_examples=40, deadline=None)
@given(fetch_s=times, step_s=times, number=workers, factor=factors, in_order=st.booleans())
def test_no_setting_beats_the_step_nor_the_workers(
    fetch_s: Floats, step_s: Floats, number: int, factor: int, in_order: bool
) -> None:
    one = iteration_s(Pipeline(fetch_s, step_s), Setting(number, factor, in_order))
    # Measured values repeat. Over whole repetitions neither loop nor workers can be faster than their means.
    slack = 1 + 2 * (fetch_s.size + step_s.size + number * factor) / 120
    assert one * slack >= step_s.mean()
    assert one * slack >= fetch_s.mean() / number
    assert one <= (fetch_s.max() + step_s.max()) * 1.001


def test_without_workers_the_loop_reads_by_itself() -> None:
    pipeline = Pipeline(np.array([0.12]), np.array([0.02]), handover_s=0.001)
    assert iteration_s(pipeline, Setting(0)) == pytest.approx(0.141)


def test_means_suffice_where_nothing_varies() -> None:
    pipeline = Pipeline(np.array([0.12]), np.array([0.02]))
    found = [iteration_s(pipeline, Setting(number)) for number in (1, 2, 3, 4, 6, 8)]
    assert found == pytest.approx([0.12, 0.06, 0.04, 0.03, 0.02, 0.02])


def one_slow(every: int = 41) -> Pipeline:
    fetch_s = np.full(every, 0.03)
    fetch_s[every // 2] = 1.0
    return Pipeline(fetch_s, np.full(1, 0.02))


def test_one_slow_batch_holds_up_the_others_unless_they_may_pass() -> None:
    # Four workers need 30 ms each 4 × 20 ms. Eight ready batches cover a part of the slow batch's second.
    held_up = iteration_s(one_slow(), Setting(4, 2))
    passed = iteration_s(one_slow(), Setting(4, 2, in_order=False))
    deep = iteration_s(one_slow(), Setting(4, 16))
    assert held_up == pytest.approx(0.02 + (1.0 - 8 * 0.02) / 41, rel=0.05)
    assert passed == pytest.approx(0.02, rel=0.03)
    assert deep == pytest.approx(0.02, rel=0.03)


def test_a_deeper_cushion_does_not_make_up_for_too_few_workers() -> None:
    pipeline = Pipeline(np.array([0.1]), np.array([0.02]))
    assert iteration_s(pipeline, Setting(2, 16)) == pytest.approx(0.05)


@pytest.mark.parametrize("number", [4, 8, 16])
def test_workers_that_compute_share_the_cpus(number: int) -> None:
    pipeline = Pipeline(np.array([0.1]), np.array([0.005]), fetch_cpus=1.0, cpus=2.0)
    assert iteration_s(pipeline, Setting(number)) == pytest.approx(0.05, rel=0.01)


def test_workers_that_wait_do_not() -> None:
    pipeline = Pipeline(np.array([0.1]), np.array([0.005]), fetch_cpus=0.05, cpus=2.0)
    assert iteration_s(pipeline, Setting(16)) == pytest.approx(0.1 / 16, rel=0.01)


def test_the_step_shares_them_too() -> None:
    pipeline = Pipeline(np.array([0.05]), np.array([0.05]), fetch_cpus=1.0, step_cpus=1.0, cpus=1.0)
    assert iteration_s(pipeline, Setting(1)) == pytest.approx(0.1, rel=0.02)


def test_nothing_measured_is_nothing_known() -> None:
    assert math.isnan(iteration_s(Pipeline(np.empty(0), np.ones(1)), Setting(2)))
