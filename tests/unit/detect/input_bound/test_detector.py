"""Input-bound: every cause, and what must not be taken for one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import alerts, only, starved


def test_in_memory_data_needs_no_workers() -> None:
    """A tensor dataset waits microseconds: sending batches between processes would take longer."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(20_000):
        builder.step(0.0002, 0.0002)
    assert not alerts(run(builder))


def test_with_two_loaders_the_one_that_is_waited_for_is_named() -> None:
    names = ("photos", "sketches")
    rank = RankBuilder(loaders=[loader(loader=n, name=name, num_workers=1) for n, name in enumerate(names)])
    for _ in range(200):
        rank.fetch(0, 0.01, loader=0).step(0.0005, 0.0001, loader=0, ready=2, nested_ns=S // 20)
        rank.fetch(0, 0.1, loader=1).step(0.05, 0.05, loader=1)
    (finding,) = [finding for finding in detect(RunEvidence(run(rank))) if finding.severity != "info"]
    assert "waits for data from sketches (" in finding.title
    assert " of 10 s): 1 worker delivers" in finding.title
    alone = RankBuilder(loaders=[loader(num_workers=1)])
    for _ in range(200):
        alone.fetch(0, 0.1).step(0.05, 0.05)
    assert re.search(r"waits for data \(\d+ % of 15 s\): 1 worker", only(run(alone)).title)


def test_a_rank_of_which_nvml_has_yet_to_tell_is_waited_with() -> None:
    """The loop's clock shows almost only waiting, but its GPU may be busy on another stream all the time."""
    rank = starved(RankBuilder(), workers=2, fetch=0.2, step=0.02, cpu=0.1)
    rank.other_stream = None
    assert not alerts(run(rank))
    rank.other_stream = False
    assert only(run(rank)).scenario == "S02"


def test_all_ranks_with_the_same_trouble_are_one_finding() -> None:
    ranks = [starved(RankBuilder(n, 4), workers=2, fetch=0.2, step=0.02, cpu=0.1, seed=n) for n in range(4)]
    finding = only(run(*ranks))
    assert finding.scenario == "S02"
    assert finding.rank is None
    assert finding.title.startswith("All 4 ranks wait for data (up to ")


def test_began_and_lost_reach_back_to_the_change() -> None:
    builder = RankBuilder()
    for number in range(600):
        builder.fetch(number % 2, 0.03, cpu=0.5).step(0.001, 0.05, ready=4)
    changed_ns = builder.now_ns
    starved(builder, workers=2, fetch=0.2, step=0.02, cpu=0.9, batches=400)
    finding = only(run(builder))
    assert abs(finding.began_ns - changed_ns) <= 6 * S
    assert finding.lost_s is not None
    assert finding.lost_s == pytest.approx(400 / 2 * 0.16, rel=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_healthy_training(seed: int) -> None:
    random = np.random.default_rng(seed)
    builder = RankBuilder()
    for number in range(500):
        builder.fetch(number % 2, 0.05 * random.uniform(0.5, 1.5), cpu=0.5)
        builder.step(
            0.002 * random.exponential(), 0.05 * random.uniform(0.8, 1.2), ready=int(random.integers(1, 5))
        )
    assert detect(RunEvidence(run(builder))) == []


class TestLookAlikes:
    """Benign events that share a signal with a stall."""

    def test_first_batches_of_an_epoch(self) -> None:
        """Short epochs: the queue is empty by nature when an epoch begins."""
        builder = RankBuilder()
        for epoch in range(20):
            builder.epoch[0], builder.batch[0] = epoch, 0
            for number in range(30):
                builder.fetch(number % 2, 0.05, cpu=0.5)
                builder.step(0.1 if number < 4 else 0.001, 0.05, ready=0 if number < 4 else 3)
        assert not alerts(run(builder))

    def test_validation_through_a_watched_loader(self) -> None:
        """N01: the eval loader is slow, and inside the train loop's step."""
        builder = RankBuilder(loaders=[loader(), loader(loader=1, name="val", role="eval", num_workers=0)])
        for number in range(200):
            builder.fetch(number % 2, 0.03, cpu=0.5).step(0.001, 0.05, ready=4)
            if number % 50 == 49:
                for _ in range(40):
                    builder.step(0.1, 0.02, loader=1)
        assert not alerts(run(builder))

    def test_gradient_accumulation(self) -> None:
        """N05: the step is periodic, the wait is not."""
        builder = RankBuilder()
        for number in range(400):
            builder.fetch(number % 2, 0.03, cpu=0.5).step(0.001, 0.2 if number % 4 == 3 else 0.03, ready=4)
        assert not alerts(run(builder))

    @pytest.mark.parametrize("ready", [0, 1])
    @pytest.mark.parametrize("going_on", [0.0, 0.1])
    def test_a_first_epoch_that_warms_up(self, ready: int, going_on: float) -> None:
        """N04: reads keep getting faster; also during a wait, or when the next batch but one came first."""
        builder = RankBuilder()
        for number in range(150):
            took = 0.25 - 0.0015 * number
            builder.fetch(0, took, cpu=0.1).fetch(1, took, cpu=0.1)
            builder.step(max(0.001, took - 0.06), 0.03, ready=ready).step(0.001, 0.03)
        if going_on:
            builder.open("wait", going_on, awaited_worker=0)
        findings = detect(RunEvidence(run(builder)))
        assert [(finding.scenario, finding.severity) for finding in findings] == [("S09", "info")]

    @pytest.mark.parametrize("seed", range(5))
    def test_a_first_epoch_that_warms_up_on_a_busy_machine(self, seed: int) -> None:
        """Every fifth read is late, as the CPU was somebody else's: that hides no trend."""
        builder, random = RankBuilder(), np.random.default_rng(seed)
        for number in range(150):
            took = 0.25 - 0.0015 * number
            for worker in (0, 1):
                builder.fetch(worker, took + (0.15 if random.random() < 0.2 else 0.0), cpu=0.1)
            builder.step(max(0.001, took - 0.06), 0.03).step(0.001, 0.03)
        findings = detect(RunEvidence(run(builder)))
        assert [(finding.scenario, finding.severity) for finding in findings] == [("S09", "info")]

    @pytest.mark.parametrize("short", [0, 60, 120, 180])
    @pytest.mark.parametrize("seed", range(5))
    def test_a_first_epoch_that_has_warmed_up(self, seed: int, short: int) -> None:
        """Reads are short by now and vary a little, and a busy machine hands each batch over late."""
        builder, random = RankBuilder(), np.random.default_rng(seed)
        for number in range(100):
            took = max(0.018, 0.24 - 0.0025 * number)
            builder.fetch(number % 2, took, cpu=0.1).step(max(0.001, took / 2 - 0.06), 0.06)
        for number in range(short):
            builder.fetch(number % 2, 0.018 * random.lognormal(sigma=0.2), cpu=0.1).step(0.008, 0.06, ready=3)
        assert not alerts(run(builder))

    def test_a_later_epoch_that_was_slow_for_a_while(self) -> None:
        """The older half waited long, the newer half only a little: no alert, as the stall is over."""
        builder = RankBuilder()
        builder.epoch[0] = 1
        for number in range(40):
            builder.fetch(number % 2, 0.18, cpu=0.1).step(0.03, 0.06)
        for number in range(90):
            builder.fetch(number % 2, 0.02, cpu=0.1).step(0.006, 0.06, ready=3)
        assert not alerts(run(builder))

    @pytest.mark.parametrize("seed", range(20))
    def test_reads_that_vary_do_not_warm_up(self, seed: int) -> None:
        builder, random = RankBuilder(), np.random.default_rng(seed)
        for number in range(40):
            took = 0.25 * random.lognormal(sigma=0.5)
            builder.fetch(number % 2, took, cpu=0.1).step(took / 2, 0.03)
        (finding,) = detect(RunEvidence(run(builder)))
        assert (finding.scenario, finding.severity) == ("S02", "critical")

    def test_a_loader_that_another_thread_iterates(self) -> None:
        builder = RankBuilder()
        for _ in range(200):
            builder.step(0.2, 0.001, off_main_thread=1)
        assert not alerts(run(builder))

    def test_a_run_that_has_ended(self) -> None:
        builder = starved(RankBuilder(), workers=2, fetch=0.2, step=0.02, cpu=0.9)
        builder.state = "finished"
        assert not alerts(run(builder))

    def test_a_stall_that_is_over(self) -> None:
        builder = starved(RankBuilder(), workers=2, fetch=0.2, step=0.02, cpu=0.9)
        for number in range(200):
            builder.fetch(number % 2, 0.03, cpu=0.5).step(0.001, 0.05, ready=4)
        assert not alerts(run(builder))

    def test_waits_on_another_loader_belong_to_that_one(self) -> None:
        """N16: two loaders in one loop; the slow one is named, once."""
        builder = RankBuilder(loaders=[loader(), loader(loader=1, name="extra")])
        for number in range(200):
            builder.fetch(number % 2, 0.03, cpu=0.5).step(0.001, 0.03, ready=4, nested_ns=int(0.1 * S))
            builder.fetch(number % 2, 0.25, cpu=0.5, loader=1).step(0.1, 0.031, loader=1)
            builder.now_ns -= int(0.131 * S)
        finding = only(run(builder))
        assert finding.key == "input-bound:1:steady"
