"""S01 S02 S07 S08 S23: workers that are missing or too slow."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from loaderwatch.advise.audit import audit
from loaderwatch.advise.facts import facts_of
from loaderwatch.advise.whatif import what_if
from loaderwatch.core.facts import ProcessState
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.played import looks, read
from tests.unit.detect.workers import only, starve, starved, watch


@settings(max_examples=25, deadline=None)
@given(
    workers=st.integers(1, 8),
    step=st.floats(0.01, 0.2),
    slowness=st.floats(1.7, 6),  # at 1.5 the share of waiting lies at the limit of a critical alert
    seed=st.integers(0, 1000),
)
@example(workers=6, step=0.125, slowness=2.0, seed=330)  # 12 rounds that happen to get shorter
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
        batches=max(60, 12 * workers, int(8 / step)),  # by fewer rounds chance makes a trend
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


def test_workers_that_finish_together_make_a_comb_of_waits() -> None:
    """Whether they do is up to chance: workers of equal speed keep the distance at which they started."""
    rank = RankBuilder(loaders=[loader(num_workers=3)])
    together = only(run(starve(rank, workers=3, fetch=0.5, step=0.05, cpu=0.9), cpus=64))
    builder = RankBuilder(loaders=[loader(num_workers=3)])
    for batch in range(120):
        builder.fetch(batch % 3, 0.51, cpu=0.9)
        builder.step(0.12, 0.05, awaited_worker=batch % 3)
    apart = only(run(builder, cpus=64))
    assert {together.scenario, apart.scenario} == {"S02"}
    assert [
        item.value for item in together.evidence if item.label == "a long wait every so many batches"
    ] == [3]
    assert "a long wait every so many batches" not in {item.label for item in apart.evidence}


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


def test_a_loop_that_reads_a_row_group_at_a_time() -> None:
    """Without workers a long wait every so many batches is the reading itself, and no worker was late."""
    builder = RankBuilder(loaders=[loader(num_workers=None, class_name="RowGroups")])
    for _ in range(8):
        for batch in range(40):
            builder.step(1.6 if batch == 0 else 0.0, 0.02)
    finding = only(run(builder))
    assert (finding.scenario, finding.severity) == ("S01", "critical")
    assert finding.gain_ceiling_ratio == pytest.approx(2 / 3, abs=0.05)


def test_one_long_wait_of_a_loop_that_reads_itself_is_none_of_that() -> None:
    builder = RankBuilder(loaders=[loader(num_workers=None, class_name="RowGroups")])
    for batch in range(300):
        builder.step(4.0 if batch in (150, 280) else 0.0, 0.02)
    assert not [finding for finding in detect(RunEvidence(run(builder))) if finding.severity != "info"]


NEVER, MAYBE, UNSPLIT, SPLIT = (
    {"iterable_dataset": stream, "splits_by_worker": splits, "dataset_class": "Rows"}
    for stream, splits in ((False, None), (True, None), (True, False), (True, True))
)


@pytest.mark.parametrize("workers", [0, 2, 16], ids=["S01", "S02", "S08"])
@pytest.mark.parametrize(
    ("dataset", "told"),
    [
        (NEVER, None),
        (MAYBE, "First check that __iter__ splits the data by torch.utils.data.get_worker_info()"),
        (UNSPLIT, "Nothing in Rows does this"),
        (SPLIT, None),
    ],
)
def test_more_workers_for_a_stream_come_with_a_warning(
    workers: int, dataset: dict[str, Any], told: str | None
) -> None:
    """An IterableDataset that is not split gives every row once per worker."""
    builder = RankBuilder(loaders=[loader(num_workers=workers, **dataset)])
    if workers:
        starve(builder, workers=workers, fetch=1.0, step=0.02, cpu=0.05)
    else:
        for _ in range(100):
            builder.fetch(-1, 0.08, cpu=0.9).step(0.08, 0.02)
    finding = only(run(builder, cpus=8))
    assert "num_workers" in finding.advice
    assert (told in finding.advice) if told else ("get_worker_info" not in finding.advice)
    already = dataset is UNSPLIT and workers > 1
    assert (f"every sample already comes {workers} times" in finding.advice) is already


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
        (1.0, 0.4, "num_workers=1 (2 usable CPUs) and persistent_workers=True. Batches are then read"),
        (1.6, 0.2, "num_workers=1 and persistent_workers=True: at most 13 steps/s instead of 10"),
        (
            1.9,
            0.4,
            "Workers alone will hardly help, because training and reading already use 1.9 of 2 usable CPUs",
        ),
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


def test_the_one_worker_that_there_is_room_for_is_not_advised_where_it_gains_nothing() -> None:
    """A step that is nothing beside the reading, on two CPUs of which one is free."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(100):
        builder.fetch(-1, 0.3, cpu=0.97).step(0.3, 0.004)
    for second in range(6):
        builder.process(worker=-1, pid=100, cpu=1.0, t_ns=builder.now_ns - second * S)
    finding = only(run(builder, cpus=2, busy=0.6))
    assert finding.scenario == "S01"
    assert finding.advice.startswith("Make reading a sample cheaper: ")
    assert (
        "Do not add a worker: the CPUs have room for only one (2 usable CPUs), and one worker is no faster"
        in finding.advice
    )
    assert "num_workers=1" not in finding.advice


@pytest.mark.parametrize(
    ("delay", "says"), [(0.0, "num_workers=7 (2 usable CPUs)"), (0.8, "move them away first")]
)
def test_waiting_for_a_cpu_is_no_waiting_for_storage(delay: float, says: str) -> None:
    """Reading on the training thread with 15 % of a CPU: it waits for storage, or both CPUs are taken."""
    builder = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(60):
        builder.fetch(-1, 0.4, cpu=0.15).step(0.4, 0.06)
    for second in range(6):
        at_ns = builder.now_ns - second * S
        builder.process(worker=-1, pid=100, cpu=0.2, t_ns=at_ns, run_delay_ratio=delay)
    finding = only(run(builder, cpus=2, busy=1.0 if delay else 0.1))
    assert finding.scenario == "S01"
    assert says in finding.advice
    assert ("num_workers=7" in finding.advice) is not bool(delay)


def serial(rank: int, *, state: ProcessState = "live") -> RankBuilder:
    """One of two ranks that read on the training thread."""
    builder = RankBuilder(rank, 2, loaders=[loader(num_workers=0)])
    builder.state = state
    for _ in range(100):
        builder.fetch(-1, 0.08, cpu=0.9).step(0.08, 0.02)
    return builder


def test_advice_evidence_and_audit_name_the_same_cpus() -> None:
    """A quota of four CPUs on a host of sixteen, for two ranks: each has two, and all sentences say four."""
    window = run(serial(0), serial(1), cpus=16, usable=4)
    finding = only(window)
    assert "num_workers=2 (4 usable CPUs for 2 ranks)" in finding.advice
    (said,) = [one.value for one in finding.evidence if one.label == "usable CPUs"]
    facts = facts_of(window)
    assert said == facts.hosts["box"].usable_cpus == RunEvidence(window).ranks[0].cpus.usable == 4
    audited = [advice.change for advice in audit(facts) if advice.check == "workers-none"]
    assert audited
    assert all("(4 usable CPUs (of 16))" in change for change in audited)


def test_cpus_are_those_of_the_ranks_that_run() -> None:
    window = run(serial(0), serial(1, state="finished"), cpus=4)
    assert RunEvidence(window).ranks[0].cpus.ranks == 1
    assert "(4 usable CPUs)" in only(window).advice


def test_fetches_that_vary_are_no_cold_cache() -> None:
    """Few rounds of many workers may get shorter by chance; a whole epoch of them does not."""
    for seed in (49, 75, 90, 583):
        builder = RankBuilder(loaders=[loader(num_workers=7)])
        starved(builder, workers=7, fetch=3.5, step=0.125, cpu=0.9, seed=seed, batches=64)
        assert only(run(builder, cpus=64)).scenario == "S02"


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


def heavy(fetch_s: list[float], *, step_s: float, iterable: bool = True, rounds: int = 60) -> RankBuilder:
    """Workers with unequal shares. Batches come in turn; a worker reads on while another is awaited."""
    workers = len(fetch_s)
    builder = RankBuilder(loaders=[loader(num_workers=workers, iterable_dataset=iterable, batches=None)])
    builder.add("epoch_begins", loader=0, epoch=0, iter_ns=S // 50, first_wait_ns=S // 10)
    round_s = max(workers * step_s, *fetch_s)
    for _ in range(rounds):
        for worker, took_s in enumerate(fetch_s):
            late = took_s > workers * step_s
            builder.step(round_s - workers * step_s if late else 0.0002, step_s, awaited_worker=worker)
            builder.fetch(worker, took_s)
    builder.open("wait", 0.01)
    return builder


@pytest.mark.parametrize("fetch_s", [[0.016, 0.48, 0.016], [0.02, 0.02, 0.02, 0.6], [0.25, 0.01]])
def test_a_heavy_share_is_told_with_its_worker(fetch_s: list[float]) -> None:
    """Not as jitter, against which prefetching would help, and not as too few workers."""
    (finding,) = detect(RunEvidence(run(heavy(fetch_s, step_s=0.02))))
    assert (finding.scenario, finding.worker) == ("S23", fetch_s.index(max(fetch_s)))
    assert f"worker {finding.worker} needs" in finding.title
    assert "prefetch_factor or more workers do not help" in finding.advice
    assert finding.gain_ceiling_ratio is not None
    assert finding.gain_ceiling_ratio > 0.3


@pytest.mark.parametrize(
    ("fetch_s", "iterable"),
    [([0.016, 0.48, 0.016], False), ([0.4, 0.48, 0.42], True), ([0.02, 0.05, 0.02], True)],
)
def test_other_loaders_have_no_heavy_share(fetch_s: list[float], iterable: bool) -> None:
    """No share is blamed if the dataset is map-style, all workers are slow, or the slowest is fast enough."""
    found = detect(RunEvidence(run(heavy(fetch_s, step_s=0.02, iterable=iterable))))
    assert "S23" not in {finding.scenario for finding in found}


@pytest.mark.parametrize(
    ("fetch_s", "told"),
    [
        (lambda at_s: 0.04 + 0.001 * at_s, True),
        (lambda at_s: 0.02 + 0.015 * at_s**0.5, True),
        (lambda at_s: 0.04 if at_s < 150 else 0.2, False),
        (lambda at_s: 0.2, False),
        (lambda at_s: 0.12 + 0.001 * at_s, True),
        (lambda at_s: 0.2 + 0.0005 * at_s, False),
    ],
    ids=[
        "a line",
        "ever more slowly",
        "a jump",
        "slow all along",
        "too slow at first, too",
        "mostly slow all along",
    ],
)
def test_fetches_that_grow_are_told_from_those_that_jumped(
    fetch_s: Callable[[float], float], told: bool
) -> None:
    """S58: workers kept up at first, so more would only delay the shortage. The jump is too old for S10."""
    *_, (_, last) = looks(read(300, fetch_s)[0], 10.0)
    (finding,) = [finding for finding in last if finding.code == "input-bound"]
    assert (finding.scenario == "S58") is told
    assert ("More workers only delay the problem" in finding.advice) is told


@pytest.mark.parametrize("grows", [True, False])
def test_growth_shows_in_the_cpu_time_where_others_use_the_cpus(grows: bool) -> None:
    """The clock of a fetch swings by three with what the others do; what it computes only grows."""

    def computed_s(at_s: float) -> float:
        return 0.03 + 0.0008 * at_s if grows else 0.1

    def fetch_s(at_s: float) -> float:
        return computed_s(at_s) + (0.3 if at_s % 40 < 20 else 0.05)

    rank, _ = read(300, fetch_s, cpu=lambda at_s: computed_s(at_s) / fetch_s(at_s))
    *_, (_, last) = looks(rank, 10.0)
    (finding,) = [finding for finding in last if finding.code == "input-bound"]
    assert (finding.scenario == "S58") is grows
    assert ("The CPU time of a fetch has risen steadily" in finding.cause) is grows


def from_memory(
    *,
    workers: int = 0,
    each_s: float = 10e-6,
    cpu: float = 1.0,
    step: float = 0.005,
    read_per_s: float = 0.0,
    worker_reads_per_s: float = 0.0,
    samples: int = 512,
) -> Finding:
    """The finding of a loader whose batches of so many samples cost so many CPU seconds per sample."""
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    took = samples * each_s / cpu
    for number in range(int(20 / (took / max(1, workers) + step))):
        worker = number % workers if workers else -1
        rank.fetch(worker, took, cpu=cpu, samples=samples, bytes=samples * 200)
        rank.step(max(0.003, took / max(1, workers) - (step if workers else 0)), step)
    watch(rank, workers, cpu=0.9, looks=11, main_cpu=0.9, read_chars=worker_reads_per_s / max(1, workers))
    for look, row in enumerate(row for row in rank.rows["processes"] if row["worker"] < 0):
        row["read_chars"] = look * read_per_s
    (found,) = [one for one in detect(RunEvidence(run(rank, cpus=64))) if one.code == "input-bound"]
    return found


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_of_data_in_memory_no_workers_are_advised(workers: int) -> None:
    finding = from_memory(workers=workers, step=0.001)
    assert finding.scenario == "S01"
    assert finding.severity == "warning"  # it loses more than 30 %, and nothing is broken
    assert "the data is in memory" in finding.title
    assert "10 µs of CPU time" in finding.cause
    assert "__getitems__" in finding.advice
    assert "Set num_workers" not in finding.advice
    assert "→" not in finding.advice


def test_data_in_memory_that_costs_little_is_a_remark() -> None:
    assert from_memory(step=0.02).severity == "info"


@pytest.mark.parametrize(
    ("each_s", "cpu"),
    [(400e-6, 1.0), (10e-6, 0.05)],
    ids=["decoded", "awaited"],
)
def test_what_is_decoded_or_awaited_is_not_in_memory(each_s: float, cpu: float) -> None:
    assert "num_workers=0" in from_memory(each_s=each_s, cpu=cpu).title


def test_small_files_are_not_in_memory_however_cheap_they_are() -> None:
    rank_reads = 512 * 200 / 0.01  # bytes per second: all that a batch holds
    assert "num_workers=0" in from_memory(read_per_s=rank_reads).title


def test_what_is_not_known_to_be_unread_is_not_in_memory() -> None:
    assert "num_workers=0" in from_memory(read_per_s=math.nan).title


def test_workers_that_read_the_indices_of_large_batches_read_no_files() -> None:
    """2,000 of them are 10 kB in a pipe, for each batch of 16 ms."""
    finding = from_memory(workers=2, step=0.001, samples=2000, worker_reads_per_s=10e3 / 0.01)
    assert "the data is in memory" in finding.title


def decoded(
    each_s: float, pressure: float, *, read: float, size: float, samples: int = 64, cpus: int = 2
) -> Finding:
    """The finding for two workers that decode on a busy host. ``read`` and ``size``: bytes per sample."""
    rank = RankBuilder(loaders=[loader(num_workers=2)])
    took = samples * each_s
    for number in range(int(20 / (took / 2))):
        rank.fetch(number % 2, took, cpu=0.95, samples=samples, bytes=int(samples * size)).step(
            took / 2 - 0.002, 0.002
        )
    watch(rank, 2, cpu=0.95, state=ord("R"), read_chars=read * samples / took)
    return only(run(rank, cpus=cpus, busy=1.0, host={"psi_cpu_some_ratio": pressure}))


@pytest.mark.parametrize("pressure", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("each_s", [0.15e-3, 0.4e-3, 1.1e-3, 3e-3])
def test_small_pictures_are_not_in_memory(each_s: float, pressure: float) -> None:
    """Of 40 kB, and 602 kB once they are decoded."""
    finding = decoded(each_s, pressure, read=40e3, size=602e3)
    assert (finding.scenario, finding.severity) == ("S07", "critical")


@pytest.mark.parametrize("pressure", [0.0, 0.9])
def test_workers_do_not_excuse_themselves_by_the_pressure_that_they_make(pressure: float) -> None:
    """They decode what lies in memory, and nobody else uses the CPUs."""
    assert decoded(120e-6, pressure, read=0.0, size=3e3, samples=512).scenario == "S07"


@pytest.mark.parametrize(("pressure", "told"), [(0.0, "S07"), (0.9, "S01")])
def test_workers_are_slower_where_others_make_the_pressure(pressure: float, told: str) -> None:
    """They keep two of sixteen CPUs busy, and other programs the rest."""
    assert decoded(120e-6, pressure, read=0.0, size=3e3, samples=512, cpus=16).scenario == told


def test_large_samples_that_are_augmented_are_no_copies() -> None:
    rank = RankBuilder(loaders=[loader(num_workers=0)])
    for _ in range(50):
        rank.fetch(-1, 0.372, cpu=1.0, samples=4, bytes=200_000_000).step(0.372, 0.05)
    watch(rank, 0, cpu=0.0, main_cpu=1.0, main_read_chars=0.0)
    assert "num_workers=8" in only(run(rank, cpus=16)).advice


@pytest.mark.parametrize(("delayed", "told"), [(0.02, "S02"), (0.5, "S07")])
def test_workers_that_sleep_half_of_a_fetch_lack_no_cpu(delayed: float, told: str) -> None:
    """On a full host they are runnable when sampled. A free CPU would not shorten the sleep in a fetch."""
    rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.42)
    watch(rank, 2, cpu=0.42, run_delay_ratio=delayed, state=ord("R"))
    assert only(run(rank, cpus=2, busy=1.0)).scenario == told


@pytest.mark.parametrize("workers", [None, 0, 1, 2])
@pytest.mark.parametrize("fetch", [0.1, 0.0])
def test_a_model_that_takes_no_time_takes_any_number(workers: int | None, fetch: float) -> None:
    """Steps of 0 ns, as a coarse clock measures them."""
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    rank.has_optimizer = True
    for number in range(200):
        rank.fetch(number % workers if workers else -1, fetch, cpu=0.9)
        rank.step(0.1 / max(1, workers or 1), 0.0, optimizer_steps=1)
    window = run(rank, cpus=64)
    what_if(RunEvidence(window), 0, 0)  # divides by no time either
    assert ("the model could take any number" in only(window).title) is (workers != 0)
