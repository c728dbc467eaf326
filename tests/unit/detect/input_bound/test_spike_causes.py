"""S20 S21 S33: single long waits for a loader that keeps up, and slow samples beside a steady shortage."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, loader, run, verdict_now
from tests.unit.detect.workers import alerts, only


def slow_sample(rank: RankBuilder, spikes: dict[int, tuple[int, float]], batches: int = 400) -> RankBuilder:
    """``spikes``: batch -> (sample index, seconds)."""
    for number in range(batches):
        if number in spikes:
            index, took = spikes[number]
            rank.step(took, 0.05, ready=3, awaited_worker=number % 2)
            rank.rows["fetches"].append(
                {
                    "rank": rank.rank,
                    "loader": 0,
                    "worker": number % 2,
                    "request_ns": rank.now_ns - int((took + 0.15) * S),
                    "fetch_ns": int((took + 0.05) * S),
                    "cpu_ns": 0,
                    "samples": 8,
                    "slow_index": index,
                    "slow_ns": int(took * S),
                }
            )
        else:
            rank.fetch(number % 2, 0.04, cpu=0.5).step(0.001, 0.05, ready=4)
    return rank


def test_one_slow_sample_is_named_with_its_index() -> None:
    finding = only(run(slow_sample(RankBuilder(), {390: (18_432, 4.0)})))
    assert finding.scenario == "S20"
    assert (finding.sample_indices, finding.worker) == ([18_432], 0)
    assert finding.lost_s == pytest.approx(4.0)
    assert "dataset[18432] took 4.0 s in worker 0" in finding.title


def short_of_workers(rank: RankBuilder, rounds: int, *, fetch: float = 0.08, step: float = 0.03) -> None:
    """Two workers that are too slow for the loop."""
    for number in range(2 * rounds):
        rank.fetch(number % 2, fetch, cpu=0.1)
        wait, ready = (fetch - 2 * step, 0) if number % 2 == 0 else (0.0005, 1)
        rank.step(wait, step, ready=ready, awaited_worker=number % 2)


@pytest.mark.parametrize("going_on", [False, True])
def test_a_slow_sample_in_a_steady_shortage_is_told_apart(going_on: bool) -> None:
    """A 12 s sample is no shortage of workers, and the 25 % lost to that shortage is not the sample's."""
    rank = RankBuilder()
    short_of_workers(rank, 300)
    if going_on:
        rank.open("wait", 12.0, awaited_worker=0).worker(1, "idle", 11.9)
        rank.worker(0, "fetch", 12.0, sample_age=12.0, sample_index=5000)
    else:
        rank.fetch(0, 12.1, slow_index=5000, slow_ns=12 * S, request_ns=rank.now_ns - S // 10)
        rank.step(12.0, 0.03, ready=1, awaited_worker=0)
        short_of_workers(rank, 40)
    found = {finding.scenario: finding for finding in detect(RunEvidence(run(rank)))}
    assert set(found) == ({"S02"} if going_on else {"S02", "S20"})
    steady, slow = found["S02"], found.get("S20")
    assert steady.is_past is going_on
    assert steady.severity == "warning"
    assert "waits for data (25 % of " in steady.title
    assert steady.lost_s == pytest.approx(6.0, rel=0.2)
    assert "A worker needs 80 ms" in steady.cause
    if slow is None:
        return  # a wait that goes on tells of no speed yet
    assert (slow.sample_indices, slow.worker) == ([5000], 0)
    assert slow.lost_s == pytest.approx(12.0)
    assert slow.severity == "warning"


def test_many_slow_samples_in_a_steady_shortage_are_part_of_it() -> None:
    rank = RankBuilder()
    for number in range(6):
        short_of_workers(rank, 30)
        rank.fetch(0, 1.1, slow_index=number, slow_ns=S, request_ns=rank.now_ns - S // 10)
        rank.step(1.0, 0.03, ready=1, awaited_worker=0)
    assert only(run(rank)).scenario == "S02"


def test_a_slow_sample_is_not_called_a_shortage() -> None:
    """The workers read a batch in 40 ms and the model takes 50: the mean with the sample says otherwise."""
    finding = only(run(slow_sample(RankBuilder(), {380: (4000, 12.0)})))
    assert finding.scenario == "S20"


def test_one_short_spike_is_not_worth_an_alert() -> None:
    window = run(slow_sample(RankBuilder(), {390: (18_432, 1.2)}))
    assert not alerts(window)
    assert [finding.scenario for finding in detect(RunEvidence(window))] == ["S20"]


def test_a_batch_that_lay_ready_is_not_blamed_on_its_worker() -> None:
    """Long waits for batches that took milliseconds to read: the training thread did not take them."""
    rank = RankBuilder()
    for number in range(400):
        wait_s = 4.0 if number in (200, 300, 390) else 0.001
        rank.fetch(number % 2, 0.004, cpu=0.5).step(wait_s, 0.05, ready=4, awaited_worker=number % 2)
    assert all(finding.scenario not in ("S20", "S21") for finding in detect(RunEvidence(run(rank))))


def test_many_slow_fetches_are_jitter_and_prefetch_is_the_cure() -> None:
    spikes = {100 + 40 * number: (1000 + number, 1.0) for number in range(8)}
    finding = only(run(slow_sample(RankBuilder(), spikes)))
    assert finding.scenario == "S21"
    advised = re.search(r"prefetch_factor=(\d+)", finding.advice)
    assert advised is not None
    assert 9 <= int(advised[1]) <= 13  # 1 s over two workers and 50 ms
    assert finding.advice.endswith(" The slowest were dataset[1000], dataset[1001] and dataset[1002].")


@pytest.mark.parametrize("number", [3, 6])
def test_several_slow_samples_hold_up_the_ready_batches_behind_them(number: int) -> None:
    """Each comes once. Reading ahead 4 s takes 40 batches per worker; letting others pass takes none."""
    spikes = {100 + 45 * one: (1000 + 7 * one**2, 4.0) for one in range(number)}
    finding = only(run(slow_sample(RankBuilder(), spikes)))
    assert finding.scenario == "S20"
    assert finding.sample_indices == [index for index, _ in spikes.values()]
    assert f" (slowest of {number}), while finished batches waited behind it" in finding.title
    assert "dataset[1000], dataset[1007]" in finding.advice
    assert "in_order=False" in finding.advice
    assert "prefetch_factor" not in finding.advice


def test_slow_samples_of_one_worker_in_quick_succession_need_more_than_the_slowest_of_them() -> None:
    """The worker is still late at the next slow sample. A queue for one of 1 s does not cover four in 4 s."""
    spikes = {300 + 8 * one: (1000 + one, 1.0) for one in range(4)}
    finding = only(run(slow_sample(RankBuilder(), spikes)))
    assert finding.scenario == "S20"
    assert "prefetch_factor" not in finding.advice


@pytest.mark.parametrize("changed", [{"num_workers": 1}, {"in_order": False}])
def test_nobody_passes_where_nobody_can(changed: dict[str, Any]) -> None:
    finding = only(run(slow_sample(RankBuilder(loaders=[loader(**changed)]), {100: (7, 4.0), 390: (7, 4.0)})))
    assert finding.scenario == "S20"
    assert "in_order" not in finding.advice


def cold_epoch(rank: RankBuilder, batches: int, *, slow: float, quick: float) -> RankBuilder:
    """Each sample is slow once: an epoch of ``batches``, and four that are quick."""
    for epoch in range(5):
        rank.epoch[0], rank.batch[0] = epoch, 0
        took = quick if epoch else slow
        for number in range(batches):
            rank.fetch(number % 2, took, cpu=0.1, slow_index=number, slow_ns=int(took * S))
            wait = max(0.001, took - 0.08) if number % 2 == 0 else 0.001
            rank.step(wait, 0.04, ready=number % 2, awaited_worker=number % 2)
    return rank


@pytest.mark.parametrize("batches", [9, 24])
def test_a_first_epoch_on_cold_storage_blames_no_sample(batches: int) -> None:
    """Few long waits or many: what was slow in them was all that was read."""
    found = detect(RunEvidence(run(cold_epoch(RankBuilder(), batches, slow=0.8, quick=0.01))))
    assert [(finding.scenario, finding.severity) for finding in found] == [("S09", "info")]
    assert found[0].sample_indices == []
    assert "in the first epoch nearly every batch took about 0.8 s" in found[0].title.replace(
        "800 ms", "0.8 s"
    )


def test_slow_samples_of_a_first_epoch_are_no_cold_storage() -> None:
    builder = slow_sample(RankBuilder(), {60 + 20 * one: (1000 + one, 4.0) for one in range(3)}, batches=130)
    assert only(run(builder)).scenario == "S20"


def test_the_same_samples_again_and_again_are_no_jitter() -> None:
    spikes = {100 + 40 * number: (1000 + number % 4, 1.0) for number in range(8)}
    finding = only(run(slow_sample(RankBuilder(), spikes)))
    assert finding.scenario == "S20"
    assert finding.sample_indices == [1000, 1001, 1002, 1003]
    assert "prefetch_factor=" not in finding.advice


@pytest.mark.parametrize(("times", "scenarios"), [(1, []), (2, ["S20"])])
def test_waits_longer_than_a_hang_that_ended_come_again(times: int, scenarios: list[str]) -> None:
    """The first was reported as a hang, and went on."""
    spikes = {100 + 100 * number: (777, 40.0) for number in range(times)}
    found = [
        one
        for one in detect(RunEvidence(run(slow_sample(RankBuilder(), spikes, batches=220))))
        if one.severity != "info"
    ]
    assert [one.scenario for one in found] == scenarios
    assert all(one.sample_indices == [777] for one in found)


def test_no_cushion_lasts_where_the_workers_are_slower_on_average() -> None:
    """One batch in ten takes 2 s. Two workers deliver a batch every 0.12 s, and a step takes half of that."""
    spikes = {50 + 10 * number: (1000 + number, 2.0) for number in range(12)}
    found = [
        f
        for f in detect(RunEvidence(run(slow_sample(RankBuilder(), spikes, batches=170))))
        if f.severity != "info"
    ]
    assert [finding.scenario for finding in found] == ["S20"]
    assert "prefetch_factor=" not in found[0].advice
    assert "in_order=False" in found[0].advice


def test_a_wait_that_goes_on_says_nothing_of_samples_until_it_ends() -> None:
    """It may be a hang. The verdict names the worker and its sample meanwhile."""
    builder = slow_sample(RankBuilder(), {})
    builder.open("wait", 6.0, awaited_worker=1).worker(0, "idle", 5.0)
    builder.worker(1, "fetch", 6.0, sample_age=5.9, sample_index=77)
    assert detect(RunEvidence(run(builder))) == []
    assert "worker 1 is reading dataset[77]" in verdict_now(run(builder), []).title


def bursts(
    places: Sequence[int], *, fetch: float = 0.01, took: float = 2.0, stream: bool = True
) -> RankBuilder:
    """A worker that delivers samples from memory and reads for seconds at the given places of its stream."""
    rank = RankBuilder(loaders=[loader(num_workers=1, iterable_dataset=stream)])
    for number in range(400):
        slow = next((place for place in places if number * 8 <= place < number * 8 + 8), None)
        if slow is None:
            rank.fetch(0, fetch, cpu=0.1).step(0.001, 0.05, ready=1)
        else:
            began_ns = rank.now_ns - S // 10
            rank.fetch(0, took + 0.1, request_ns=began_ns, slow_index=slow, slow_ns=int(took * S))
            rank.step(took, 0.05, awaited_worker=0)
    return rank


@pytest.mark.parametrize("places", [(2048, 2560), (1500, 2012, 2524), (1024, 1536, 2560, 3072)])
def test_samples_that_are_slow_a_block_apart_are_a_buffer_that_is_filled(places: tuple[int, ...]) -> None:
    finding = only(run(bursts(places)))
    assert (finding.scenario, finding.sample_indices, finding.worker) == ("S33", [], 0)
    assert "every 512 samples a worker reads a whole block, for up to 2.1 s" in finding.title
    assert "prefetch_factor=44 covers the stops as well." in finding.advice


@pytest.mark.parametrize(("both", "scenario"), [(True, "S33"), (False, "S21")])
def test_row_groups_of_a_map_style_dataset_are_read_by_each_worker(both: bool, scenario: str) -> None:
    """What a single worker reads slowly may be that sample."""
    rank = RankBuilder(loaders=[loader(batches=100_000)])
    for number in range(400):
        worker, place = number % 2, number * 8
        slow = place % 512 < (16 if both else 8) and number > 100
        if slow:
            rank.fetch(worker, 1.1, request_ns=rank.now_ns - S // 10, slow_index=place, slow_ns=S)
        else:
            rank.fetch(worker, 0.01, cpu=0.1)
        rank.step(1.0 if slow else 0.001, 0.05, ready=0 if slow else 2, awaited_worker=worker)
    finding = only(run(rank))
    assert finding.scenario == scenario
    assert not both or "every 512 samples a worker reads a whole block" in finding.title


def test_a_block_that_takes_longer_than_its_steps_is_no_matter_of_reading_ahead() -> None:
    finding = only(run(bursts((2048, 2560, 3072), took=6.0)))
    assert finding.scenario == "S33"
    assert "prefetch_factor" not in finding.advice
    assert "Even then the workers need" in finding.advice


@pytest.mark.parametrize("places", [(2048, 2569), (1000, 1512), (1024, 1536, 2061), (1030, 1033, 1036)])
def test_samples_that_are_slow_anywhere_are_no_buffer(places: tuple[int, ...]) -> None:
    assert only(run(bursts(places))).scenario in ("S20", "S21")


def test_a_sample_that_a_worker_has_just_begun_is_not_what_the_loop_waits_for() -> None:
    """The workers' states are newer than the loop's: the slow sample is done, the next batch is in work."""
    builder = slow_sample(RankBuilder(), {100: (777, 2.0), 200: (777, 2.0)}, batches=250)
    builder.open("wait", 1.5, awaited_worker=0).worker(1, "idle", 1.4)
    builder.worker(0, "fetch", 0.01, sample_age=0.002, sample_index=142)
    (finding,) = detect(RunEvidence(run(builder)))
    assert (finding.scenario, finding.sample_indices) == ("S20", [777])


@pytest.mark.parametrize(("every", "found"), [(10, ["S14"]), (150, [])])
def test_long_waits_for_which_no_worker_was_late(every: int, found: list[str]) -> None:
    """A thread between workers and loop that stops now and then; once or twice it may be anything."""
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(300):
        wait_s = 0.8 if number % every == every - 1 else 0.001
        builder.fetch(number % 2, 0.004, cpu=0.5).step(wait_s, 0.02, ready=4, wait_cpu_ns=0)
    assert [
        finding.scenario for finding in detect(RunEvidence(run(builder))) if finding.severity != "info"
    ] == found


@pytest.mark.parametrize(
    ("took_s", "delay", "found"),
    [(1.0, 0.85, []), (1.0, 0.1, ["S20"]), (4.0, 0.6, ["S20"])],
    ids=["kept from the CPU", "slow by itself", "slow in spite of it"],
)
def test_a_worker_that_had_no_cpu_is_no_slow_sample(took_s: float, delay: float, found: list[str]) -> None:
    builder = RankBuilder()
    for number in range(400):
        slow = number in (200, 300)
        began_ns = builder.now_ns
        builder.fetch(
            number % 2,
            took_s if slow else 0.004,
            request_ns=began_ns,
            slow_index=7,
            slow_ns=int(took_s * S) if slow else S // 1000,
        )
        if slow:
            for second in range(int(took_s)):
                at_ns = began_ns + (second + 1) * S
                builder.process(worker=0, pid=200, cpu=0.1, t_ns=at_ns, run_delay_ratio=delay)
        builder.step(took_s if slow else 0.001, 0.05, ready=2)
    assert [
        finding.scenario for finding in detect(RunEvidence(run(builder))) if finding.severity != "info"
    ] == found
