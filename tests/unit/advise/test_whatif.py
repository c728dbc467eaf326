"""What other numbers of workers would give."""

from __future__ import annotations

import pytest

from loaderwatch.advise.whatif import Option, WhatIf, what_if
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, loader, run


def starved(cpu: float) -> RankBuilder:
    builder = RankBuilder()
    for _ in range(100):
        builder.fetch(0, 0.12, cpu=cpu).fetch(1, 0.12, cpu=cpu).step(0.08, 0.02).step(0.0, 0.02)
    return builder


def found(builder: RankBuilder, cpus: int = 4) -> WhatIf:
    result = what_if(RunEvidence(run(builder, cpus=cpus)), 0, 0)
    assert result is not None
    return result


def at(result: WhatIf, workers: int) -> Option:
    return next(option for option in result.workers if option.setting.num_workers == workers)


def test_more_workers_bring_what_the_step_leaves_over() -> None:
    result = found(starved(0.05))
    assert (
        at(result, 2).iteration_s
        == pytest.approx(result.measured_s, rel=0.02)
        == pytest.approx(0.06, rel=0.02)
    )
    assert at(result, 2).gain_ratio == pytest.approx(0.0, abs=0.02)
    assert at(result, 6).steps_per_s == pytest.approx(50, rel=0.02)
    assert at(result, 6).gain_ratio == pytest.approx(1 - 0.02 / 0.06, abs=0.01)
    assert result.knee == 6
    assert [option.setting.num_workers for option in result.workers] == list(range(1, 13))


def test_workers_that_compute_bring_no_more_than_the_cpus() -> None:
    result = found(starved(1.0), cpus=4)
    assert at(result, 8).iteration_s == pytest.approx(0.12 / 4, rel=0.02)
    assert result.knee == 4


def test_a_range_holds_what_is_measured_and_what_is_played() -> None:
    builder = RankBuilder()
    for number in range(100):
        long = 0.4 if number % 13 == 5 else 0.05
        builder.fetch(0, long).fetch(1, 0.06).step(0.04, 0.02).step(0.0, 0.02)
    result = found(builder)
    assert result.today.least_s <= result.measured_s * 1.001 <= result.today.most_s * 1.002
    for option in result.workers:
        assert option.least_s <= option.iteration_s <= option.most_s


def test_the_memory_is_that_of_the_batches_read_ahead() -> None:
    assert at(found(starved(0.05)), 3).memory_bytes == 3 * 2 * 1_000_000


def test_one_slow_batch_is_passed_out_of_order() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=4)])
    for number in range(200):
        slow = 1.0 if number % 40 == 20 else 0.03
        builder.step(0.95 if slow == 1.0 else 0.0, 0.02).fetch(number % 4, slow)
    result = found(builder)
    (passing,) = [one for one in result.others if not one.setting.in_order]
    (deeper,) = [one for one in result.others if one.setting.prefetch_factor == 16]
    assert passing.iteration_s == pytest.approx(0.02, rel=0.1)
    assert deeper.iteration_s < result.today.iteration_s


def test_without_workers_the_wait_is_the_fetch() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(60):
        builder.step(0.05, 0.025)
    result = found(builder)
    assert result.today.iteration_s == pytest.approx(0.075)
    assert result.knee == 2
    assert at(result, 2).iteration_s == pytest.approx(0.025)


def test_cpus_that_others_took_while_it_was_measured_are_given_back() -> None:
    builder = starved(0.5)
    for second in range(12):
        for worker in (0, 1):
            builder.process(
                worker=worker,
                pid=200 + worker,
                cpu=0.5,
                t_ns=builder.now_ns - second * S,
                run_delay_ratio=0.25,
            )
    assert found(builder).fetch_s < 0.95 * found(starved(0.5)).fetch_s


def test_nothing_to_say() -> None:
    assert what_if(RunEvidence(run(starved(0.9))), 7, 0) is None
    assert what_if(RunEvidence(run(starved(0.9))), 0, 7) is None
    builder = RankBuilder(loaders=[loader(num_workers=None)])
    for _ in range(60):
        builder.step(0.05, 0.025)
    assert what_if(RunEvidence(run(builder)), 0, 0) is None
    few = RankBuilder()
    few.fetch(0, 0.1).step(0.1, 0.01)
    assert what_if(RunEvidence(run(few)), 0, 0) is None


def test_nothing_is_told_where_the_loop_waits_for_something_else() -> None:
    """Batches lie ready, yet each is handed over late: no number of workers changes that."""
    builder = RankBuilder()
    for number in range(100):
        builder.fetch(number % 2, 0.01).step(0.2, 0.02, ready=4)
    assert what_if(RunEvidence(run(builder)), 0, 0) is None


def test_slow_batches_of_one_worker_are_not_covered_by_a_deeper_cushion() -> None:
    """In order, and each twelfth batch: of two workers it is always the first one's, which cannot keep up."""
    builder = RankBuilder(loaders=[loader(num_workers=2)])
    for number in range(240):
        builder.fetch(number % 2, 0.24 if number % 12 == 0 else 0.024)
        builder.step(0.18 if number % 12 == 0 else 0.0, 0.02)
    (deeper,) = [one for one in found(builder).others if one.setting.prefetch_factor == 16]
    assert deeper.iteration_s == pytest.approx((0.24 + 5 * 0.024) / 12, rel=0.03)
    assert deeper.least_s < 0.9 * deeper.iteration_s  # in another order it would be


def test_what_the_loop_reads_by_itself_is_no_cpu_of_its_steps() -> None:
    """A step that waits for its GPU leaves the CPUs to the workers that there could be."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(100):
        builder.fetch(-1, 0.085, cpu=1.0).step(0.085, 0.06, wait_cpu_ns=85_000_000)
        builder.process(worker=-1, pid=100, cpu=0.59)
    assert at(found(builder, cpus=2), 2).iteration_s == pytest.approx(0.06, rel=0.03)
