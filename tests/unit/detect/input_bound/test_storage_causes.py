"""S09 S10 S11: what the storage does, and what only looks like it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.core.facts import AT_WORK, LOCK_WAIT
from loaderwatch.core.records import ThreadState
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.fakes.profiles import OWN, PICTURE
from tests.unit.detect import stacks
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.test_lost_time_lines import sampled
from tests.unit.detect.workers import alerts, on_host, only, starve, watch


def healthy(rank: RankBuilder, seconds: float, *, fetch: float, step: float, workers: int = 2) -> RankBuilder:
    """A loader that keeps up."""
    random = np.random.default_rng(1)
    for number in range(int(seconds / step)):
        rank.fetch(number % workers, fetch * random.uniform(0.8, 1.2), cpu=0.05)
        rank.step(0.0005, step, ready=workers)
    return rank


class TestStepChange:
    """S10."""

    @settings(max_examples=20, deadline=None)
    @given(
        workers=st.integers(1, 8),
        factor=st.floats(4, 30),
        after_s=st.floats(10, 60),
        seed=st.integers(0, 99),
    )
    def test_all_workers_at_the_same_second(
        self, workers: int, factor: float, after_s: float, seed: int
    ) -> None:
        step = 0.05
        usual = 0.8 * workers * step
        rank = RankBuilder(loaders=[loader(num_workers=workers)])
        healthy(rank, 20, fetch=usual, step=step, workers=workers)
        changed_ns = rank.now_ns
        seconds = max(after_s, 6 * factor * usual)
        starve(rank, fetch=factor * usual, step=step, workers=workers, cpu=0.02, seconds=seconds, seed=seed)
        finding = only(run(rank))
        assert finding.scenario == "S10"
        evidence = {item.label: item.value for item in finding.evidence}
        assert evidence["fetch before the change"] == pytest.approx(usual, rel=0.3)
        assert evidence["fetch since"] == pytest.approx(factor * usual, rel=0.3)
        assert isinstance(evidence["changed so long ago"], float)
        ago_s = (rank.now_ns - changed_ns) / 1e9
        assert evidence["changed so long ago"] == pytest.approx(ago_s, abs=2 * factor * usual + 1)

    @pytest.mark.parametrize(("state", "is_storage"), [(ThreadState.DISK, True), (ThreadState.CHILD, False)])
    def test_samples_that_show_other_work_refute_it(self, state: ThreadState, is_storage: bool) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=2)])
        healthy(rank, 20, fetch=0.08, step=0.05, workers=2)
        starve(rank, fetch=0.8, step=0.05, workers=2, cpu=0.02, seconds=20, seed=1)
        window = run(rank)
        rows = sampled(window.ranks[0], {OWN: 95, PICTURE: 5}, state=state)
        (finding,) = detect(RunEvidence(replace(window, ranks={0: rows})))
        assert (finding.scenario == "S10") == is_storage, finding.title

    @pytest.mark.parametrize(("wchan", "scenario"), [("wait_woken", "S08"), ("folio_wait_bit_common", "S10")])
    def test_what_is_asked_over_the_network_is_no_storage(self, wchan: str, scenario: str) -> None:
        rank = healthy(RankBuilder(), 20, fetch=0.08, step=0.05)
        starve(rank, fetch=1.0, step=0.05, cpu=0.02, seconds=15)
        watch(rank, 2, cpu=0.02)
        pids = {int(row["worker"]): int(row["pid"]) for row in rank.rows["processes"]}
        for worker in (0, 1):
            rank.stack(worker, pids[worker], stacks.WORKER, why=LOCK_WAIT, wchan=wchan)
        finding = only(run(rank))
        assert finding.scenario == scenario
        assert "fetches in all workers became" in finding.title
        waits = "was waiting for an answer at data.py:42 in load_image" in finding.cause
        assert waits is (scenario == "S08")

    def test_no_spike_is_reported_meanwhile(self) -> None:
        """From the first slow fetches on: at no moment is it a slow sample or jitter."""
        rank = RankBuilder()
        healthy(rank, 20, fetch=0.08, step=0.05)
        for _ in range(12):
            starve(rank, fetch=1.0, step=0.05, cpu=0.02, seconds=0.9)
            assert {f.scenario for f in detect(RunEvidence(run(rank))) if f.severity != "info"} <= {"S10"}
        assert alerts(run(rank)) == ["S10"]

    def test_larger_batches_take_longer(self) -> None:
        rank = RankBuilder()
        healthy(rank, 20, fetch=0.08, step=0.05)
        starve(rank, fetch=0.6, step=0.05, cpu=0.02, bytes=7_500_000)
        assert only(run(rank)).scenario == "S02"

    def test_workers_that_compute_more(self) -> None:
        rank = RankBuilder()
        healthy(rank, 20, fetch=0.08, step=0.05)
        starve(rank, fetch=0.6, step=0.05, cpu=0.9)
        assert only(run(rank)).scenario != "S10"

    def test_workers_that_wait_for_a_cpu(self) -> None:
        """A neighbour took the CPUs: fetches suddenly take longer and compute less; storage stays fast."""
        rank = RankBuilder()
        healthy(rank, 20, fetch=0.08, step=0.05)
        starve(rank, fetch=0.6, step=0.05, cpu=0.1)
        watch(rank, 2, cpu=0.1, state=ord("R"), run_delay_ratio=0.8)
        assert only(run(rank, cpus=2, busy=1.0)).scenario != "S10"

    def test_one_worker_alone(self) -> None:
        rank = RankBuilder()
        healthy(rank, 20, fetch=0.08, step=0.05)
        for _ in range(20):
            rank.step(0.6, 0.05, ready=2, awaited_worker=0).fetch(0, 0.7, cpu=0.02).fetch(1, 0.08, cpu=0.02)
            rank.step(0.001, 0.05, ready=2)
        assert "S10" not in alerts(run(rank))

    def test_a_slow_first_epoch_is_not_a_change(self) -> None:
        rank = RankBuilder()
        starve(rank, fetch=0.6, step=0.05, cpu=0.02)
        assert only(run(rank)).scenario == "S02"

    def test_a_slow_spell_that_is_over(self) -> None:
        rank = RankBuilder()
        healthy(rank, 20, fetch=0.08, step=0.05)
        starve(rank, fetch=0.8, step=0.05, cpu=0.02, seconds=8)
        healthy(rank, 40, fetch=0.08, step=0.05)
        assert not alerts(run(rank))


class TestAmplification:
    """S11."""

    @settings(max_examples=20, deadline=None)
    @given(factor=st.floats(12, 5000), workers=st.integers(1, 6), cpu=st.floats(0.05, 0.95))
    def test_far_more_is_read_than_used(self, factor: float, workers: int, cpu: float) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=workers)])
        fetch = 0.08 * workers
        starve(rank, fetch=fetch, step=0.02, workers=workers, cpu=cpu, bytes=800_000)
        watch(rank, workers, cpu=cpu, threads=2, read_chars=factor * 800_000 / fetch)
        finding = only(run(rank, cpus=64))
        assert finding.scenario == "S11"
        evidence = {item.label: item.value for item in finding.evidence}
        assert evidence["read for each byte used"] == pytest.approx(factor, rel=0.35)
        assert evidence["used per sample"] == pytest.approx(100_000, rel=0.01)

    @pytest.mark.parametrize("factor", [0.2, 1.0, 5.0])
    def test_photos_that_are_decoded(self, factor: float) -> None:
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.9, bytes=800_000)
        watch(rank, 2, cpu=0.9, threads=2, read_chars=factor * 800_000 / 0.2)
        assert only(run(rank, cpus=64)).scenario == "S02"

    @pytest.mark.parametrize(
        ("library", "told"), [("PIL/ImageFile.py", "S02"), ("numpy/lib/format.py", "S11")], ids=str
    )
    def test_large_photos_for_small_pictures(self, library: str, told: str) -> None:
        """The files are read whole, and what takes the time is decoding them."""
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.9, bytes=800_000)
        watch(rank, 2, cpu=0.9, threads=2, read_chars=20 * 800_000 / 0.2)
        frame = f'  File "/opt/venv/lib/python3.11/site-packages/{library}", line 300 in load\n'
        line = '  File "/home/me/project/data.py", line 42 in load_image\n'
        rank.stack(0, 200, stacks.WORKER.replace(line, frame + line), why=AT_WORK)
        assert only(run(rank, cpus=64)).scenario == told

    def test_small_samples_with_a_header(self) -> None:
        """A hundred times the bytes, but hardly any."""
        rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.1, bytes=800)
        watch(rank, 2, cpu=0.1, threads=2, read_chars=100 * 800 / 0.2)
        assert only(run(rank, cpus=64)).scenario == "S02"


class TestThrash:
    """S09 that does not pass."""

    def thrashing(self, epoch: int) -> RankBuilder:
        rank = RankBuilder()
        rank.epoch[0] = epoch
        starve(rank, fetch=0.3, step=0.02, cpu=0.05, bytes=40_000_000)
        return watch(rank, 2, cpu=0.05, threads=2, read_chars=60e6, read_bytes=58e6)

    def test_the_cache_is_too_small(self) -> None:
        finding = only(on_host(run(self.thrashing(3)), refault_bytes_per_s=90e6))
        assert (finding.scenario, finding.severity) == ("S09", "critical")
        assert "larger than the memory" in finding.cause

    @pytest.mark.parametrize(("read_bytes", "scenario"), [(20e3, "S02"), (200e3, "S02"), (210e3, "S09")])
    def test_a_few_pages_a_second_take_no_time(self, read_bytes: float, scenario: str) -> None:
        """If a page takes 20 ms at most, two workers with 50 pages a second wait half of their time."""
        rank = RankBuilder()
        rank.epoch[0] = 3
        starve(rank, fetch=0.3, step=0.02, cpu=0.05, bytes=15_000)
        watch(rank, 2, cpu=0.05, threads=2, read_chars=read_bytes, read_bytes=read_bytes / 2)
        assert only(on_host(run(rank), refault_bytes_per_s=90e6)).scenario == scenario

    @pytest.mark.parametrize(("read_bytes", "scenario"), [(330e6, "S09"), (58e6, "S07")])
    def test_bringing_pages_in_is_no_work_of_the_workers(self, read_bytes: float, scenario: str) -> None:
        """With fast storage the kernel does this work. The remaining time is the cost of the samples."""
        rank = RankBuilder()
        rank.epoch[0] = 3
        starve(rank, fetch=0.3, step=0.02, cpu=0.7, bytes=read_bytes * 0.15)
        watch(rank, 2, cpu=0.7, threads=2, read_chars=read_bytes, read_bytes=read_bytes)
        assert only(on_host(run(rank, cpus=2, busy=0.9), refault_bytes_per_s=600e6)).scenario == scenario

    def test_in_the_first_epoch_it_may_still_warm_up(self) -> None:
        assert only(on_host(run(self.thrashing(0)), refault_bytes_per_s=90e6)).scenario == "S02"

    def test_nothing_is_read_again(self) -> None:
        assert only(on_host(run(self.thrashing(3)), refault_bytes_per_s=0.0)).scenario == "S02"


class TestFilling:
    """A first epoch that fills a cache of the dataset's own is no case for an alert."""

    def told(
        self, *, written: float, epoch: int = 0, batches: int | None = 400, steady: bool = True
    ) -> Finding:
        """Two workers that compute, eight samples a batch of 30 kB each."""
        rank = RankBuilder(loaders=[loader(num_workers=2, batches=batches)])
        rank.epoch[0] = epoch
        starve(rank, fetch=0.3, step=0.02, cpu=1.0, samples=8, bytes=8 * 30_000)
        watch(rank, 2, cpu=1.0, threads=2, written_chars=written if steady else 0.0)
        if not steady:
            for row in rank.rows["processes"][-4:]:
                row["written_chars"] = 1e8
        (finding,) = detect(RunEvidence(run(rank, cpus=2, busy=1.0)))
        return finding

    def test_it_is_a_remark(self) -> None:
        finding = self.told(written=8 * 30_000 * 3.3)
        assert (finding.scenario, finding.severity) == ("S09", "info")
        assert "as into a cache" in finding.title
        assert finding.advice.startswith("Wait for the second epoch.")

    @pytest.mark.parametrize(("steps", "told"), [(2, ["S09"]), (3, []), (40, [])])
    def test_when_it_is_over_nothing_is_told(self, steps: int, told: list[str]) -> None:
        rank = RankBuilder(loaders=[loader(num_workers=2, batches=400)])
        starve(rank, fetch=0.3, step=0.02, cpu=1.0, samples=8, bytes=8 * 30_000)
        rank.epoch[0] = 1
        for number in range(steps):
            rank.fetch(number % 2, 0.002, cpu=0.9)
            rank.step(0.0005, 0.02, ready=2)
        watch(rank, 2, cpu=1.0, threads=2, written_chars=8 * 30_000 * 3.3)
        assert [finding.scenario for finding in detect(RunEvidence(run(rank, cpus=2, busy=1.0)))] == told

    @pytest.mark.parametrize(
        "fields",
        [
            {"written": 8 * 30_000 * 3.3, "epoch": 1},
            {"written": 8 * 30_000 * 3.3, "batches": None},
            {"written": 8 * 200 * 3.3},
            {"written": 0.0},
            {"written": 0.0, "steady": False},
        ],
        ids=["a later epoch", "an epoch without end", "a log", "nothing", "once"],
    )
    def test_else_it_alerts(self, fields: dict[str, Any]) -> None:
        finding = self.told(**fields)
        assert (finding.scenario, finding.severity) == ("S07", "critical")

    @pytest.mark.parametrize(
        ("seen_s", "until_s", "scenario"), [(5, 0, "S09"), (2, 0, "S07"), (5, 11, "S07")]
    )
    def test_it_takes_four_readings_of_the_last_seconds(
        self, seen_s: int, until_s: int, scenario: str
    ) -> None:
        """A run of a few seconds has no more than five, and its first alert must not be wrong."""
        rank = RankBuilder(loaders=[loader(num_workers=2, batches=400)])
        starve(rank, fetch=0.3, step=0.02, cpu=1.0, samples=8, bytes=8 * 30_000)
        watch(rank, 2, cpu=1.0, threads=2, written_chars=8 * 30_000 * 3.3)
        seen = range(rank.now_ns - (until_s + seen_s) * S, rank.now_ns - until_s * S)
        rank.rows["processes"] = [row for row in rank.rows["processes"] if row["t_ns"] in seen]
        (finding,) = detect(RunEvidence(run(rank, cpus=2, busy=1.0)))
        assert finding.scenario == scenario


class TestLatency:
    """S08, and what the machine says of its reads."""

    def waiting(self, faults: float) -> Finding:
        rank = RankBuilder(loaders=[loader(num_workers=8)])
        starve(rank, fetch=0.8, step=0.02, workers=8, cpu=0.05)
        watch(rank, 8, cpu=0.05, threads=2, read_bytes=2e6, major_faults=faults, voluntary_switches=90)
        return only(run(rank, cpus=2, busy=0.2))

    def test_memory_mapped_files_are_named(self) -> None:
        finding = self.waiting(80.0)
        assert finding.scenario == "S08"
        assert "memory-mapped" in finding.cause
        assert "MADV_WILLNEED" in finding.advice
        evidence = {item.label: item.value for item in finding.evidence}
        assert evidence["page faults of a worker that wait for storage"] == pytest.approx(80)
        assert evidence["waits of a worker (voluntary switches)"] == pytest.approx(90)

    def test_plain_reads(self) -> None:
        finding = self.waiting(0.5)
        assert finding.scenario == "S08"
        assert "memory-mapped" not in finding.cause + finding.advice


def test_a_change_long_ago_keeps_its_name() -> None:
    """Later windows hold slow fetches only; the incident stays what it was."""
    from loaderwatch.detect.incidents.tracker import Tracker

    rank = RankBuilder()
    healthy(rank, 20, fetch=0.08, step=0.05)
    starve(rank, fetch=0.8, step=0.05, cpu=0.02, seconds=20)
    tracker = Tracker("run")
    first = only(run(rank))
    for second in range(4):
        tracker.update([first], rank.now_ns + second * S)
    later = RankBuilder()
    starve(later, fetch=0.8, step=0.05, cpu=0.02, seconds=60)
    tracker.update([only(run(later))], rank.now_ns + 60 * S)
    assert [incident.finding.scenario for incident in tracker.incidents] == ["S10"]
