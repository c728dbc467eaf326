"""Input-bound: every cause, and what must not be taken for one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.advise.audit import audit
from loaderwatch.advise.facts import facts_of
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.measures.machine import cpus_of
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S, loader, run


def only(window: RunWindow) -> Finding:
    (finding,) = [finding for finding in detect(window) if finding.severity != "info"]
    return finding


def alerts(window: RunWindow) -> list[str]:
    return [finding.title for finding in detect(window) if finding.severity != "info"]


def starved(
    rank: RankBuilder,
    *,
    workers: int,
    fetch: float,
    step: float,
    cpu: float,
    batches: int = 200,
    seed: int = 0,
) -> RankBuilder:
    """Workers in phase: all deliver together, then all read again."""
    random = np.random.default_rng(seed)
    for number in range(batches):
        if number % workers == 0:
            took = fetch * random.uniform(0.9, 1.1)
            for worker in range(workers):
                rank.fetch(worker, took, cpu=cpu)
            rank.step(max(0.0005, took - step * workers), step)
        else:
            rank.step(0.0004, step, ready=workers - number % workers)
    return rank


@settings(max_examples=25, deadline=None)
@given(
    workers=st.integers(1, 8),
    step=st.floats(0.01, 0.2),
    slowness=st.floats(1.5, 6),
    seed=st.integers(0, 1000),
)
def test_too_few_workers(workers: int, step: float, slowness: float, seed: int) -> None:
    builder = RankBuilder(loaders=[loader(num_workers=workers)])
    fetch = slowness * step * workers
    starved(
        builder,
        workers=workers,
        fetch=fetch,
        step=step,
        cpu=0.9,
        seed=seed,
        batches=max(60, 6 * workers, int(8 / step)),
    )
    finding = only(run(builder, cpus=64))
    assert finding.scenario == "S02"
    assert finding.severity == "critical"
    advised = re.search(r"num_workers (\d+) → (\d+)", finding.advice)
    assert advised is not None
    assert int(advised[1]) == workers
    assert abs(int(advised[2]) - fetch / step) <= 0.15 * fetch / step + 1
    assert finding.gain_ceiling_ratio is not None
    assert finding.gain_ceiling_ratio <= 1 - 1 / slowness + 0.1


def test_no_free_cpu_means_more_workers_are_no_cure() -> None:
    builder = starved(RankBuilder(), workers=2, fetch=0.2, step=0.02, cpu=0.95)
    for second in range(6):
        for worker in range(2):
            builder.process(
                worker=worker, pid=200 + worker, cpu=0.95, t_ns=builder.now_ns - second * S, state=ord("R")
            )
    finding = only(run(builder, cpus=2, busy=0.98))
    assert finding.scenario == "S07"
    assert "will not help" in finding.advice


def test_crowded_cpus_are_seen_by_the_workers_state() -> None:
    """On a crowded machine workers get little CPU; that they want it shows in their state."""
    builder = starved(RankBuilder(), workers=2, fetch=0.4, step=0.02, cpu=0.2)
    for second in range(6):
        for worker in range(2):
            builder.process(
                worker=worker, pid=200 + worker, cpu=0.2, t_ns=builder.now_ns - second * S, state=ord("R")
            )
    assert only(run(builder, cpus=2, busy=1.0)).scenario == "S07"


def test_many_workers_that_only_wait_are_latency_bound() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=16)])
    starved(builder, workers=16, fetch=1.0, step=0.02, cpu=0.05)
    finding = only(run(builder, cpus=8))
    assert finding.scenario == "S08"
    assert "shards" in finding.advice


def test_reading_on_the_training_thread() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(100):
        builder.fetch(-1, 0.08, cpu=0.9).step(0.08, 0.02)
    finding = only(run(builder))
    assert finding.scenario == "S01"
    assert "num_workers=4" in finding.advice
    assert finding.gain_ceiling_ratio == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    ("busy_cpus", "gain", "says"),
    [
        (1.0, 0.4, "num_workers=1 (2 usable CPUs) and persistent_workers=True: batches are then read"),
        (1.6, 0.2, "num_workers=1 and persistent_workers=True for 13 steps/s at most instead of 10"),
        (1.9, 0.4, "Workers alone will hardly help, as training and reading keep 1.9 of 2 usable CPUs busy"),
    ],
)
def test_reading_in_workers_costs_as_much_cpu_as_before(busy_cpus: float, gain: float, says: str) -> None:
    """Training on two CPUs: a step of 60 ms with threads on both, and 40 ms of reading."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(200):
        builder.fetch(-1, 0.04, cpu=0.9).step(0.04, 0.06)
    for second in range(6):
        builder.process(worker=-1, pid=100, cpu=busy_cpus, t_ns=builder.now_ns - second * S)
    finding = only(run(builder, cpus=2, busy=busy_cpus / 2))
    assert finding.scenario == "S01"
    assert says in finding.advice
    assert finding.gain_ceiling_ratio == pytest.approx(gain, abs=0.01)
    assert finding.advice.startswith("Make reading a sample cheaper: ") is (busy_cpus > 1.8)


def serial(rank: int, *, state: str = "live") -> RankBuilder:
    """One of two ranks that read on the training thread."""
    builder = RankBuilder(rank, 2, loaders=[loader(num_workers=0)])
    builder.state = state
    for _ in range(100):
        builder.fetch(-1, 0.08, cpu=0.9).step(0.08, 0.02)
    return builder


def test_advice_evidence_and_audit_name_the_same_cpus() -> None:
    """A quota of four CPUs on a host of sixteen, for two ranks: each has two of them, and all sentences say four."""
    window = run(serial(0), serial(1), cpus=16, usable=4)
    finding = only(window)
    assert "num_workers=2 (4 usable CPUs for 2 ranks)" in finding.advice
    (said,) = [one.value for one in finding.evidence if one.label == "usable CPUs"]
    facts = facts_of(window)
    assert said == facts.hosts["box"].usable_cpus == cpus_of(window, window.ranks[0]).usable == 4
    audited = [advice.change for advice in audit(facts) if advice.check == "workers-none"]
    assert audited
    assert all("(4 usable CPUs (of 16))" in change for change in audited)


def test_cpus_are_those_of_the_ranks_that_run() -> None:
    window = run(serial(0), serial(1, state="finished"), cpus=4)
    assert cpus_of(window, window.ranks[0]).ranks == 1
    assert "(4 usable CPUs)" in only(window).advice


def test_in_memory_data_needs_no_workers() -> None:
    """A tensor dataset waits microseconds: sending batches between processes would take longer."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(20_000):
        builder.step(0.0002, 0.0002)
    assert not alerts(run(builder))


def test_delivery_in_the_training_process() -> None:
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(100):
        builder.fetch(number % 2, 0.05, cpu=0.5).step(0.075, 0.3, ready=8, wait_cpu_ns=int(0.04 * S))
    finding = only(run(builder))
    assert finding.scenario == "S13"
    assert "More workers or more prefetch will not help" in finding.advice


def test_delivery_is_told_from_a_cold_cache_at_once() -> None:
    """No four seconds of steady steps are needed: the batches lie ready, so the workers are warm."""
    builder = RankBuilder(loaders=[loader(prefetch_factor=2)])
    for number in range(12):
        builder.fetch(number % 2, 0.05, cpu=0.5).step(0.075, 0.3, ready=4, wait_cpu_ns=int(0.04 * S))
    assert only(run(builder)).scenario == "S13"


def test_a_busy_machine_is_no_slow_delivery() -> None:
    """A small batch that takes 4 ms to take over, a fifth of it work: the CPU was not there."""
    builder = RankBuilder(loaders=[loader(prefetch_factor=2)])
    for number in range(400):
        builder.fetch(number % 2, 0.009, cpu=0.1).step(0.004, 0.02, ready=4, wait_cpu_ns=int(0.0008 * S))
    assert not alerts(run(builder))


@pytest.mark.parametrize("going_on", [0.0, 0.9])
def test_delivery_on_a_busy_machine(going_on: float) -> None:
    """A seventh of the wait is work, but that work alone is a fifth of an iteration; one wait has not ended yet."""
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(9):
        builder.fetch(number % 2, 0.001, cpu=0.9).step(0.0, 0.25, ready=8)  # left out
    for number in range(8):
        builder.fetch(number % 2, 0.001, cpu=0.9).step(0.2, 0.25, ready=7, wait_cpu_ns=int(0.028 * S))
    if going_on:
        builder.open("wait", 2.0, awaited_worker=0)
    assert only(run(builder, cpus=2, busy=1.0)).scenario == "S13"


def test_fetches_that_vary_are_no_cold_cache() -> None:
    """Few rounds of many workers may get shorter by chance; a whole epoch of them does not."""
    for seed in (49, 75, 90, 583):
        builder = RankBuilder(loaders=[loader(num_workers=7)])
        starved(builder, workers=7, fetch=3.5, step=0.125, cpu=0.9, seed=seed, batches=64)
        assert only(run(builder, cpus=64)).scenario == "S02"


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
    """12 s of one sample are not the fault of too few workers, and the quarter that they cost is not the sample's."""
    rank = RankBuilder()
    short_of_workers(rank, 300)
    if going_on:
        rank.open("wait", 12.0, awaited_worker=0).worker(1, "idle", 11.9)
        rank.worker(0, "fetch", 12.0, sample_age=12.0, sample_index=5000)
    else:
        rank.fetch(0, 12.1, slow_index=5000, slow_ns=12 * S, request_ns=rank.now_ns - S // 10)
        rank.step(12.0, 0.03, ready=1, awaited_worker=0)
        short_of_workers(rank, 40)
    found = {finding.scenario: finding for finding in detect(run(rank))}
    assert set(found) == {"S02", "S20"}
    steady, slow = found["S02"], found["S20"]
    assert steady.severity == "warning"
    assert "loses 25 %" in steady.title
    assert steady.lost_s == pytest.approx(6.0, rel=0.2)
    assert "A worker needs 80 ms" in steady.cause
    assert (slow.sample_indices, slow.worker) == ([5000], 0)
    assert slow.lost_s == pytest.approx(12.0)
    assert slow.severity == ("info" if going_on else "warning")


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


def test_with_two_loaders_the_one_that_is_waited_for_is_named() -> None:
    names = ("photos", "sketches")
    rank = RankBuilder(loaders=[loader(loader=n, name=name, num_workers=1) for n, name in enumerate(names)])
    for _ in range(200):
        rank.fetch(0, 0.01, loader=0).step(0.0005, 0.0001, loader=0, ready=2, nested_ns=S // 20)
        rank.fetch(0, 0.1, loader=1).step(0.05, 0.05, loader=1)
    (finding,) = [finding for finding in detect(run(rank)) if finding.severity != "info"]
    assert "waiting for data from sketches: 1 worker delivers" in finding.title
    alone = RankBuilder(loaders=[loader(num_workers=1)])
    for _ in range(200):
        alone.fetch(0, 0.1).step(0.05, 0.05)
    assert "waiting for data: 1 worker" in only(run(alone)).title


def test_one_short_spike_is_not_worth_an_alert() -> None:
    window = run(slow_sample(RankBuilder(), {390: (18_432, 1.2)}))
    assert not alerts(window)
    assert [finding.scenario for finding in detect(window)] == ["S20"]


def test_a_batch_that_lay_ready_is_not_blamed_on_its_worker() -> None:
    """Long waits for batches that took milliseconds to read: the training thread did not take them."""
    rank = RankBuilder()
    for number in range(400):
        wait_s = 4.0 if number in (200, 300, 390) else 0.001
        rank.fetch(number % 2, 0.004, cpu=0.5).step(wait_s, 0.05, ready=4, awaited_worker=number % 2)
    assert all(finding.scenario not in ("S20", "S21") for finding in detect(run(rank)))


def test_many_slow_fetches_are_jitter_and_prefetch_is_the_cure() -> None:
    spikes = {100 + 40 * number: (1000 + number, 1.0) for number in range(8)}
    finding = only(run(slow_sample(RankBuilder(), spikes)))
    assert finding.scenario == "S21"
    advised = re.search(r"prefetch_factor=(\d+)", finding.advice)
    assert advised is not None
    assert 9 <= int(advised[1]) <= 13  # 1 s over two workers and 50 ms


def test_a_wait_that_goes_on_is_a_remark_until_it_ends_or_hangs() -> None:
    builder = slow_sample(RankBuilder(), {})
    builder.open("wait", 6.0, awaited_worker=1).worker(0, "idle", 5.0)
    builder.worker(1, "fetch", 6.0, sample_age=5.9, sample_index=77)
    (finding,) = detect(run(builder))
    assert (finding.scenario, finding.severity, finding.sample_indices) == ("S20", "info", [77])


def test_the_one_rank_that_keeps_the_others_waiting() -> None:
    slow, fast = RankBuilder(1, 2), RankBuilder(0, 2)
    for number in range(200):
        slow.fetch(number % 2, 0.3, cpu=0.1).step(0.13, 0.02, backward_ns=int(0.001 * S))
        fast.fetch(number % 2, 0.02, cpu=0.1).step(0.001, 0.149, ready=4, backward_ns=int(0.13 * S))
    finding = only(run(fast, slow))
    assert (finding.scenario, finding.rank) == ("S43", 1)
    assert "rank 0 waits for rank 1" in finding.title
    assert "spends 129 ms of it in backward waiting for rank 1" in finding.cause


@pytest.mark.parametrize(("own", "said"), [(0.4, True), (1.0, False)])
def test_neighbours_that_take_the_cpus_are_named(own: float, said: bool) -> None:
    builder = RankBuilder(loaders=[loader(num_workers=2)])
    starved(builder, workers=2, fetch=0.2, step=0.02, cpu=0.9)
    for second in range(10):
        for worker in (0, 1):
            at_ns = builder.now_ns - second * S
            builder.process(worker=worker, pid=200 + worker, cpu=own, t_ns=at_ns, state=ord("R"))
    finding = only(run(builder, cpus=2, busy=0.99))
    assert finding.scenario == "S07"
    assert ("Other programs on this host keep 1.2 CPUs busy" in finding.cause) is said, finding.cause


def test_a_training_thread_without_a_cpu_says_who_holds_it() -> None:
    builder = RankBuilder(loaders=[loader(prefetch_factor=2)])
    for number in range(400):
        builder.fetch(number % 2, 0.01, cpu=0.5).step(0.02, 0.03, ready=4, wait_cpu_ns=S // 5000)
    builder.process(worker=-1, pid=100, cpu=0.3)
    for busy, who in ((0.99, "other programs hold the CPUs"), (0.2, "the training thread gets no CPU")):
        finding = only(run(builder, cpus=2, busy=busy))
        assert finding.scenario == "S14"
        assert who in finding.title


@pytest.mark.parametrize(("every", "found"), [(10, ["S14"]), (150, [])])
def test_long_waits_for_which_no_worker_was_late(every: int, found: list[str]) -> None:
    """A thread between workers and loop that stops now and then; once or twice it may be anything."""
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(300):
        wait_s = 0.8 if number % every == every - 1 else 0.001
        builder.fetch(number % 2, 0.004, cpu=0.5).step(wait_s, 0.02, ready=4, wait_cpu_ns=0)
    assert [finding.scenario for finding in detect(run(builder)) if finding.severity != "info"] == found


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
    assert [finding.scenario for finding in detect(run(builder)) if finding.severity != "info"] == found


def straggler(fetch_s: float) -> Finding:
    """Rank 1 waits for its workers, which take 300 ms; rank 0, whose workers take ``fetch_s``, waits for rank 1."""
    slow, next_one = RankBuilder(1, 2), RankBuilder(0, 2)
    for number in range(200):
        slow.fetch(number % 2, 0.3, cpu=0.1).step(0.13, 0.02)
        next_one.fetch(number % 2, fetch_s, cpu=0.1).step(0.001, 0.149, ready=4)
    return only(run(next_one, slow))


def test_the_rank_that_would_be_next_is_said() -> None:
    """It waits for another one, and its workers read ahead meanwhile: nothing else shows that they are too slow."""
    hidden, alone = straggler(0.2), straggler(0.02)
    assert (hidden.scenario, hidden.rank) == (alone.scenario, alone.rank) == ("S43", 1)
    assert "rank 0 is too slow as well" in hidden.cause
    assert "need 100 ms per batch" in hidden.cause
    assert hidden.advice.startswith("Mend rank 1 on box, and rank 0 with it.")
    assert hidden.gain_ceiling_ratio == pytest.approx(1 / 3, abs=0.01)
    assert "as well" not in alone.cause
    assert alone.gain_ceiling_ratio is not None
    assert alone.gain_ceiling_ratio > 0.8


def test_a_rank_that_is_as_slow_is_no_bystander() -> None:
    """Whose batches come a moment later is chance where all workers are too slow: to mend that rank alone gains nothing."""
    finding = straggler(0.29)
    assert (finding.scenario, finding.rank) == ("S02", None)
    assert finding.title.startswith(
        "Both ranks lose up to 87 % of their time waiting for data: 2 workers deliver"
    )
    assert "Raise num_workers 2 →" in finding.advice


def test_all_ranks_with_the_same_trouble_are_one_finding() -> None:
    ranks = [starved(RankBuilder(n, 4), workers=2, fetch=0.2, step=0.02, cpu=0.1, seed=n) for n in range(4)]
    finding = only(run(*ranks))
    assert finding.scenario == "S02"
    assert finding.rank is None
    assert finding.title.startswith("All 4 ranks lose up to ")


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
    assert detect(run(builder)) == []


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
        """N04: reads get faster all the time, whoever looks during a wait, and if the next batch but one came first."""
        builder = RankBuilder()
        for number in range(150):
            took = 0.25 - 0.0015 * number
            builder.fetch(0, took, cpu=0.1).fetch(1, took, cpu=0.1)
            builder.step(max(0.001, took - 0.06), 0.03, ready=ready).step(0.001, 0.03)
        if going_on:
            builder.open("wait", going_on, awaited_worker=0)
        findings = detect(run(builder))
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
        findings = detect(run(builder))
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
        """The newer half of what is looked at waits a little, the older one waited long: not told as if it went on."""
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
        (finding,) = detect(run(builder))
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
