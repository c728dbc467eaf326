"""Growth from step to step."""

from __future__ import annotations

import numpy as np
import pytest

from loaderwatch.core.records import UNKNOWN
from loaderwatch.detect.measures.statistics import Floats, Growth, growth
from loaderwatch.detect.running_out.resource_growth import Ints, Rise, is_likely, stretches
from tests.unit.detect.build import T0, RankBuilder, S, loader, run


def steady(t_ns: Ints, values: Floats) -> Growth | None:
    return growth(t_ns, values, 8.0)


def rise_of(builder: RankBuilder, t_s: list[float], values: list[float]) -> Rise | None:
    found = stretches(run(builder).ranks[0])
    times = np.array([T0 + int(second * S) for second in t_s], dtype=np.int64)
    return found.rise(times, np.array(values), steady) if found is not None else None


def test_only_the_least_of_each_stretch_counts() -> None:
    """A peak at every second reading, as a step that is half over has one."""
    builder = RankBuilder()
    for _ in range(100):
        builder.step(0.1, 0.4)
    seconds = list(np.arange(0.2, 50.0, 1.0))
    assert rise_of(builder, seconds, [1e9 + 1e9 * (number % 2) for number in range(50)]) is None
    found = rise_of(builder, seconds, [1e6 * number + 1e9 * (number % 2) for number in range(50)])
    assert found is not None
    assert found.growth.per_s == pytest.approx(1e6, rel=0.02)
    assert 2 * found.growth.span_s == pytest.approx(found.steps, abs=1)
    assert found.basis == {"seen_s": pytest.approx(46, abs=0.5), "steps": found.steps}


def test_a_rank_trains_from_its_first_batch_to_its_last() -> None:
    builder = RankBuilder(loaders=[loader(), loader(loader=1, name="val_loader", role="eval")])
    assert stretches(run(builder).ranks[0]) is None
    for _ in range(20):
        builder.step(0.0, 1.0, loader=1)
    assert stretches(run(builder).ranks[0]) is None  # it evaluates
    builder.step(30.0, 1.0)
    assert stretches(run(builder).ranks[0]) is None  # one step
    for _ in range(10):
        builder.step(0.0, 1.0)
    found = stretches(run(builder).ranks[0])
    assert found is not None
    assert (int(found.bounds_ns[0]), int(found.bounds_ns[-1])) == (T0 + 50 * S, T0 + 60 * S)
    assert stretches(run(builder.open("outside", 12.0, loader=None)).ranks[0]) is not None
    assert stretches(run(builder.open("outside", 12.0, loader=None)).ranks[0]) is None  # it has stopped


def test_steps_of_unknown_length_end_with_the_next() -> None:
    builder = RankBuilder()
    for _ in range(10):
        builder.step(0.0, 5.0)
    builder.step(0.0, 0.0, step_ns=UNKNOWN, nested_ns=0)
    found = stretches(run(builder).ranks[0])
    assert found is not None
    assert found.bounds_ns.size == 11


def test_batches_whose_wait_is_not_known_are_steps_as_well() -> None:
    """A thread of the script's own takes them from the loader."""
    builder = RankBuilder()
    for _ in range(10):
        builder.step(0.0, 5.0, wait_ns=UNKNOWN)
    found = stretches(run(builder).ranks[0])
    assert found is not None
    assert found.bounds_ns.size == 11


def test_an_alert_needs_a_part_of_what_was_free() -> None:
    assert is_likely(1.0, 39.0)
    assert not is_likely(1.0, 40.0)
    assert not is_likely(float("nan"), 1.0)
    assert not is_likely(1.0, 10.0, looks_ahead=9.0)
