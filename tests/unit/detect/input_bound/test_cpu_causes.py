"""S03 S04 S05 S06 S14: which of the ways to lack CPU it is, and that it is said once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import alerts, on_host, only, starve, watch

R = float(ord("R"))


class TestQuota:
    """S04."""

    @settings(max_examples=20, deadline=None)
    @given(
        quota=st.floats(0.3, 6),
        workers=st.integers(1, 8),
        throttled=st.floats(0.3, 1),
        step=st.floats(0.01, 0.1),
        seed=st.integers(0, 99),
    )
    def test_named_with_its_numbers(
        self, quota: float, workers: int, throttled: float, step: float, seed: int
    ) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=workers)])
        cpu = min(0.9, quota / workers)
        starve(rank, fetch=4 * workers * step, step=step, workers=workers, cpu=cpu, seed=seed)
        watch(rank, workers, cpu=cpu, state=R, threads=2, affinity_cpus=16, main_affinity_cpus=16)
        window = on_host(
            run(rank, cpus=16, usable=quota, busy=0.3), quota_cpus=quota, throttled_ratio=throttled
        )
        finding = only(window)
        assert finding.scenario == "S04"
        assert "os.cpu_count()" in finding.advice
        evidence = {item.label: item.value for item in finding.evidence}
        assert evidence["CPU quota"] == pytest.approx(quota)
        assert evidence["periods in which the quota stopped us"] == pytest.approx(throttled)
        raised = re.search(r"to about (\d+) CPUs", finding.advice)
        assert raised is None or int(raised[1]) > quota
        assert finding.gain_ceiling_ratio is not None
        assert finding.gain_ceiling_ratio <= 1 - step / (4 * step) + 0.1

    def test_reading_on_the_training_thread(self) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=0)])
        for _ in range(200):
            rank.fetch(-1, 0.1, cpu=0.3).step(0.1, 0.02)
        window = on_host(run(rank, cpus=8, usable=0.5), quota_cpus=0.5, throttled_ratio=0.9)
        assert only(window).scenario == "S04"

    def test_a_quota_that_is_not_used_up_is_not_to_blame(self) -> None:
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.1)
        watch(rank, 2, cpu=0.1)
        window = on_host(run(rank, cpus=16, usable=4), quota_cpus=4.0, throttled_ratio=0.02)
        assert only(window).scenario == "S02"

    def test_throttling_of_a_loader_that_keeps_up(self) -> None:
        rank = RankBuilder()
        for number in range(400):
            rank.fetch(number % 2, 0.05, cpu=0.5).step(0.001, 0.05, ready=4)
        watch(rank, 2, cpu=0.5)
        assert not alerts(on_host(run(rank, usable=2), quota_cpus=2.0, throttled_ratio=0.8))


class TestAffinity:
    """S05."""

    @pytest.mark.parametrize("workers", [2, 4, 12])
    def test_workers_on_one_cpu(self, workers: int) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=workers)])
        each = 0.98 / workers
        starve(rank, fetch=0.05 / each, step=0.02, workers=workers, cpu=each)
        watch(
            rank,
            workers,
            cpu=each,
            state=R,
            threads=2,
            affinity_cpus=1,
            main_affinity_cpus=16,
            run_delay_ratio=1 - each,
        )
        finding = only(run(rank, cpus=16, busy=0.1))
        assert finding.scenario == "S05"
        assert f"{workers} workers may use only 1 CPU, while the training process may use 16 CPUs" in (
            finding.title
        )
        assert "sched_setaffinity" in finding.advice

    def test_the_whole_job_on_one_cpu_of_many(self) -> None:
        """Slurm without --cpus-per-task: the mask is inherited."""
        rank = RankBuilder(loaders=[loader(num_workers=4)])
        starve(rank, fetch=0.4, step=0.02, workers=4, cpu=0.24)
        watch(
            rank, 4, cpu=0.24, state=R, threads=2, affinity_cpus=1, main_affinity_cpus=1, run_delay_ratio=0.7
        )
        finding = only(run(rank, cpus=64, usable=1, busy=0.05))
        assert finding.scenario == "S05"
        assert "--cpus-per-task=5" in finding.advice

    def test_pinning_each_worker_to_a_cpu_of_its_own_is_fine(self) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=4)])
        starve(rank, fetch=0.2, step=0.02, workers=4, cpu=0.95)
        watch(
            rank,
            4,
            cpu=0.98,
            state=R,
            threads=2,
            affinity_cpus=1,
            main_affinity_cpus=4,
            run_delay_ratio=0.01,
        )
        assert only(run(rank, cpus=4, busy=1.0)).scenario == "S07"

    def test_workers_that_wait_for_storage_do_not_need_more_cpus(self) -> None:
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.05)
        watch(rank, 2, cpu=0.05, threads=2, affinity_cpus=1, main_affinity_cpus=16, run_delay_ratio=0.01)
        assert only(run(rank, cpus=16)).scenario == "S02"

    def test_ranks_bound_to_their_share_of_the_machine(self) -> None:
        ranks = []
        for number in range(8):
            rank = RankBuilder(number, 8, loaders=[loader(num_workers=10)])
            starve(rank, fetch=0.6, step=0.02, workers=10, cpu=0.8, seed=number)
            watch(
                rank,
                10,
                cpu=0.8,
                state=R,
                threads=2,
                affinity_cpus=8,
                main_affinity_cpus=8,
                run_delay_ratio=0.3,
            )
            ranks.append(rank)
        assert "S05" not in alerts(run(*ranks, cpus=64, busy=1.0))


class TestThreads:
    """S06."""

    @settings(max_examples=15, deadline=None)
    @given(workers=st.integers(2, 8), threads=st.integers(3, 33), seed=st.integers(0, 99))
    def test_pools_that_fight(self, workers: int, threads: int, seed: int) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=workers)])
        each = 2.0 / workers
        reading = each / threads
        starve(rank, fetch=0.4, step=0.01, workers=workers, cpu=reading, seed=seed)
        watch(rank, workers, cpu=each, state=R, threads=threads + 1, run_delay_ratio=0.6, affinity_cpus=2)
        finding = only(run(rank, cpus=2, busy=1.0))
        assert finding.scenario == "S06"
        assert "OPENBLAS_NUM_THREADS=1" in finding.advice
        assert f"{workers * threads} in all on 2 CPUs" in finding.title
        # Whatever the reading thread burns may be spinning: only the step is sure to stay.
        assert finding.gain_ceiling_ratio == pytest.approx(1 - 0.01 / (0.4 / workers), abs=0.03)

    def test_threads_that_sleep_are_no_trouble(self) -> None:
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.95)
        watch(rank, 2, cpu=0.97, state=R, threads=17, run_delay_ratio=0.05)
        assert only(run(rank, cpus=2, busy=1.0)).scenario == "S07"

    def test_workers_that_hardly_compute_are_pushed_off_by_something_else(self) -> None:
        """Next to a fetch that sleeps, the thread that sends its batches looks large."""
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.005)
        watch(rank, 2, cpu=0.009, threads=3, run_delay_ratio=0.4, affinity_cpus=2)
        assert only(run(rank, cpus=2, busy=1.0)).scenario != "S06"

    def test_threads_that_help_on_free_cpus(self) -> None:
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.95)
        watch(rank, 2, cpu=3.6, state=R, threads=5, run_delay_ratio=0.01)
        assert only(run(rank, cpus=64, busy=0.12)).scenario == "S02"


class TestCrowd:
    """S03."""

    @settings(max_examples=15, deadline=None)
    @given(
        cpus=st.integers(2, 16), crowd=st.floats(2, 6), step=st.floats(0.005, 0.05), seed=st.integers(0, 99)
    )
    def test_more_workers_than_cpus(self, cpus: int, crowd: float, step: float, seed: int) -> None:
        workers = int(cpus * crowd) + 1
        rank = RankBuilder(loaders=[loader(num_workers=workers)])
        each = cpus / workers
        fetch = 3 * step * workers
        starve(rank, fetch=fetch, step=step, workers=workers, cpu=each, seed=seed, seconds=max(25, 5 * fetch))
        watch(rank, workers, cpu=each, state=R, threads=2, affinity_cpus=cpus, run_delay_ratio=1 - each)
        finding = only(run(rank, cpus=cpus, busy=1.0))
        assert finding.scenario == "S03"
        advised = re.search(r"num_workers (\d+) → (\d+)", finding.advice)
        assert advised is not None
        assert (int(advised[1]), int(advised[2])) == (workers, cpus)
        # The CPUs do useful work: fewer workers make nothing faster, and the finding does not say so.
        assert finding.gain_ceiling_ratio is not None
        assert finding.gain_ceiling_ratio <= 0.2

    def test_the_workers_of_all_ranks_count(self) -> None:
        ranks = []
        for number in range(4):
            rank = RankBuilder(number, 4, loaders=[loader(num_workers=4)])
            starve(rank, fetch=0.4, step=0.02, workers=4, cpu=0.25, seed=number)
            ranks.append(watch(rank, 4, cpu=0.25, state=R, threads=2, run_delay_ratio=0.7))
        finding = only(run(*ranks, cpus=4, busy=1.0))
        assert finding.scenario == "S03"
        assert "num_workers 4 → 1" in finding.advice
        assert "16 workers (4 per rank and loader, 4 ranks)" in finding.title

    def test_as_many_workers_as_cpus_is_no_crowd(self) -> None:
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.95)
        watch(rank, 2, cpu=0.95, state=R, threads=2, run_delay_ratio=0.05)
        assert only(run(rank, cpus=2, busy=1.0)).scenario == "S07"

    def test_two_workers_for_each_cpu_are_no_crowd(self) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=4)])
        starve(rank, fetch=0.4, step=0.02, workers=4, cpu=0.5)
        watch(rank, 4, cpu=0.5, state=R, threads=2, run_delay_ratio=0.5)
        finding = only(run(rank, cpus=2, busy=1.0))
        assert finding.scenario == "S07"
        assert "2 CPUs can read at most" in finding.cause

    def test_what_workers_burn_beside_reading_comes_back(self) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=8)])
        starve(rank, fetch=0.8, step=0.02, workers=8, cpu=0.1)  # of a CPU, reading; each uses 0.125
        watch(rank, 8, cpu=0.125, state=R, threads=3, run_delay_ratio=0.8)
        finding = only(run(rank, cpus=1, busy=1.0))
        assert finding.scenario == "S03"
        assert finding.gain_ceiling_ratio == pytest.approx(0.2, abs=0.03)

    def test_a_crowd_that_sleeps(self) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=16)])
        starve(rank, fetch=1.0, step=0.02, workers=16, cpu=0.03)
        watch(rank, 16, cpu=0.03, threads=2, run_delay_ratio=0.01)
        assert only(run(rank, cpus=2, busy=0.3)).scenario == "S08"

    def test_a_crowd_that_sleeps_on_a_machine_that_others_fill(self) -> None:
        """What little they compute waits for a CPU, but a fetch is made of sleep."""
        rank = RankBuilder(loaders=[loader(num_workers=8)])
        starve(rank, fetch=0.32, step=0.01, workers=8, cpu=0.06)
        watch(rank, 8, cpu=0.06, state=R, threads=2, run_delay_ratio=0.3)
        assert only(run(rank, cpus=2, busy=1.0)).scenario != "S03"

    def test_a_full_machine_that_keeps_up(self) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=8)])
        for number in range(600):
            rank.fetch(number % 8, 0.3, cpu=0.25).step(0.001, 0.05, ready=8)
        watch(rank, 8, cpu=0.25, state=R, threads=2, run_delay_ratio=0.7)
        assert not alerts(run(rank, cpus=2, busy=1.0))


def test_before_there_were_such_columns_the_state_of_the_workers_tells() -> None:
    rank = RankBuilder(loaders=[loader(num_workers=6)])
    starve(rank, fetch=0.6, step=0.02, workers=6, cpu=0.16)
    watch(rank, 6, cpu=0.16, state=R)
    assert only(run(rank, cpus=1, busy=1.0)).scenario == "S03"


def test_a_training_thread_without_a_cpu_says_who_holds_it() -> None:
    builder = RankBuilder(loaders=[loader(prefetch_factor=2)])
    for number in range(400):
        builder.fetch(number % 2, 0.01, cpu=0.5).step(0.02, 0.03, ready=4, wait_cpu_ns=S // 5000)
    builder.process(worker=-1, pid=100, cpu=0.3)
    for busy, rule, who in (
        (0.99, "cpus-held-by-others", "other programs use the CPUs"),
        (0.2, "training-thread-without-cpu", "the training thread gets no CPU"),
    ):
        finding = only(run(builder, cpus=2, busy=busy))
        assert (finding.scenario, finding.rule) == ("S14", rule)
        assert who in finding.title
