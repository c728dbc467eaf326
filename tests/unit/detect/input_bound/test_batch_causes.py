"""S12 S13 S16 S19 S54: making and delivering the batch. S25: the garbage collector's share of a fetch."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.core.facts import AT_WORK, LoaderInfo
from loaderwatch.core.records import ReadBy
from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.machine import SLOWEST
from loaderwatch.detect.window import RunWindow
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import alerts, only, starve, watch


@settings(max_examples=20, deadline=None)
@given(
    share=st.floats(0.55, 0.99),
    workers=st.integers(1, 6),
    samples=st.integers(1, 512),
    slowness=st.floats(1.5, 6),
)
def test_collating_takes_most_of_a_fetch(share: float, workers: int, samples: int, slowness: float) -> None:
    rank = RankBuilder(loaders=[loader(num_workers=workers)])
    fetch = slowness * 0.03 * workers
    starve(
        rank,
        fetch=fetch,
        step=0.03,
        workers=workers,
        cpu=0.9,
        samples=samples,
        collate_ns=int(share * fetch * S),
    )
    finding = only(run(rank, cpus=64))
    assert finding.scenario == "S12"
    evidence = {item.label: item.value for item in finding.evidence}
    assert evidence["share of a fetch spent in collate_fn"] == pytest.approx(share, rel=0.1)
    assert finding.gain_ceiling_ratio is not None
    assert finding.gain_ceiling_ratio <= 1 - 1 / slowness + 0.1


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_collating_that_is_cheap(share: float) -> None:
    rank = starve(RankBuilder(), fetch=0.2, step=0.02, cpu=0.9, collate_ns=int(share * 0.2 * S))
    assert only(run(rank, cpus=64)).scenario == "S02"


def delivering(**fields: Any) -> RankBuilder:
    """Batches lie ready, and unpacking them keeps the training thread busy."""
    rank = RankBuilder(loaders=[loader(prefetch_factor=4, **fields)])
    for number in range(100):
        rank.fetch(number % 2, 0.05, cpu=0.5).step(0.075, 0.3, ready=8, wait_cpu_ns=int(0.04 * S))
    return rank


@pytest.mark.parametrize("every", [1, 8, None])
def test_a_stateful_loader_ships_its_state(every: int | None) -> None:
    rank = delivering(class_name="StatefulDataLoader", snapshot_every_n_steps=every)
    finding = only(run(rank))
    assert finding.scenario == "S19"
    assert "snapshot_every_n_steps" in finding.advice
    if every is not None:
        assert f"snapshot_every_n_steps {every} →" in finding.advice


def test_rare_snapshots_are_not_what_batches_carry() -> None:
    rank = delivering(class_name="StatefulDataLoader", snapshot_every_n_steps=1000)
    assert only(run(rank)).scenario == "S13"


def test_another_loader_has_no_snapshots() -> None:
    assert only(run(delivering())).scenario == "S13"


IN_SAMPLER = """Current thread 0x00007f2b28a4b740 (most recent call first):
  File "/home/me/project/data.py", line 50 in scores
  File "/home/me/project/data.py", line 61 in __iter__
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 715 in _next_index
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 1539 in _try_put_index
  File "/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", line 733 in __next__
  File "/home/me/project/train.py", line 40 in main
  File "/home/me/project/train.py", line 99 in <module>
"""


def test_a_sampler_that_computes_while_batches_lie_ready() -> None:
    finding = only(run(delivering().stack(-1, 100, IN_SAMPLER, why=AT_WORK)))
    assert finding.scenario == "S15"
    assert "batches are ready, but the sampler needs 75 ms per batch in the training thread" in finding.title
    assert "The training thread was running data.py:50 in scores" in finding.cause
    assert len(finding.stacks) == 1


def test_a_stack_of_unpacking_is_no_sampler() -> None:
    taken = IN_SAMPLER.replace("_next_index", "_process_data")
    finding = only(run(delivering().stack(-1, 100, taken, why=AT_WORK)))
    assert finding.scenario == "S13"
    assert "data.py:50" in finding.cause


def handing_over(*, pin_memory: bool, pin: float, process: float, main: float = 0.02) -> RunWindow:
    """Batches lie ready, next() uses no CPU, and still takes long. What threads compute is CPUs."""
    rank = RankBuilder(loaders=[loader(prefetch_factor=4, pin_memory=pin_memory)])
    for number in range(150):
        rank.fetch(number % 2, 0.05, cpu=0.5).step(0.12, 0.1, ready=6)
    watch(rank, 2, cpu=0.3, main_cpu=process, main_main_cpu_ratio=main, main_pin_cpu_ratio=pin)
    return run(rank)


@pytest.mark.parametrize(
    ("pin", "process"),
    [
        (0.97, 1.0),
        (0.45, 0.5),
        (0.1, 0.13),  # it waits for the workers, or for a CPU
        (0.6, 1.1),  # the thread of the backward pass computes, too
    ],
)
def test_the_pin_thread_is_the_limit(pin: float, process: float) -> None:
    finding = only(handing_over(pin_memory=True, pin=pin, process=process))
    assert finding.scenario == "S16"
    assert "pinned memory" in finding.cause
    evidence = {item.label: item.value for item in finding.evidence}
    assert evidence["CPU use of the thread that pins memory"] == pytest.approx(pin)
    assert finding.gain_ceiling_ratio == pytest.approx(0.12 / 0.22, abs=0.01)


@pytest.mark.parametrize(
    ("pin_memory", "pin", "process"),
    [
        (True, math.nan, 0.9),  # PyTorch sees no accelerator, or does not name its threads yet
        (False, math.nan, 0.9),
        (True, 0.03, 0.95),  # another thread holds the interpreter's lock
        (True, 0.2, 0.9),
        (True, 0.01, 0.02),
    ],
)
def test_another_thread_is_to_blame(pin_memory: bool, pin: float, process: float) -> None:
    assert only(handing_over(pin_memory=pin_memory, pin=pin, process=process)).scenario == "S14"


def test_the_thread_that_pins_is_not_asked_when_batches_are_late() -> None:
    rank = RankBuilder(loaders=[loader(pin_memory=True)])
    starve(rank, fetch=0.2, step=0.02, cpu=0.3)
    watch(rank, 2, cpu=0.3, main_cpu=0.9, main_main_cpu_ratio=0.1, main_pin_cpu_ratio=0.8)
    assert only(run(rank)).scenario == "S02"


def collecting(part: float, fetch_s: float = 0.2) -> RankBuilder:
    """Two workers that collect garbage for a part of every fetch; the loop waits for them."""
    builder = RankBuilder()
    builder.epoch[0] = 1
    for number in range(120):
        worker = number % 2
        builder.fetch(worker, fetch_s, cpu=0.95)
        began_ns = builder.now_ns - int(fetch_s * S)
        builder.add(
            "collections", worker=worker, request_ns=began_ns + S // 100, duration_ns=int(part * fetch_s * S)
        )
        builder.step(fetch_s / 2 - 0.02, 0.02)
    return builder


def test_most_of_a_fetch_is_the_collectors() -> None:
    (finding,) = detect(RunEvidence(run(collecting(0.7))))
    assert (finding.code, finding.scenario, finding.severity) == ("input-bound", "S25", "critical")
    assert "takes 140 ms of the 200 ms" in finding.title
    assert "gc.freeze()" in finding.advice
    assert finding.gain_ceiling_ratio is not None
    assert 0.65 < finding.gain_ceiling_ratio < 0.75  # (200 - 140) / 2 ms instead of 100 ms


def test_a_small_part_of_it_is_not() -> None:
    (finding,) = detect(RunEvidence(run(collecting(0.2))))
    assert finding.scenario == "S02"


def test_a_long_pause_is_no_slow_sample() -> None:
    def spiky(collected: bool) -> RankBuilder:
        builder = RankBuilder()
        builder.epoch[0] = 1
        for number in range(400):
            slow = number % 100 == 50
            took_s = 1.2 if slow else 0.03
            began_ns = builder.now_ns if slow else builder.now_ns - int(took_s * S)
            builder.fetch(
                number % 2, took_s, request_ns=began_ns, slow_index=number**2, slow_ns=int(took_s * S)
            )
            if slow and collected:
                builder.add("collections", worker=0, request_ns=began_ns + S // 10, duration_ns=S)
            builder.step(1.2 if slow else 0.001, 0.05, ready=2)
        return builder

    (finding,) = detect(RunEvidence(run(spiky(True))))
    assert (finding.scenario, finding.worker, finding.sample_indices) == ("S25", 0, [])
    assert "stopped worker 0 for 1.0 s" in finding.title
    (finding,) = detect(RunEvidence(run(spiky(False))))
    assert finding.scenario in ("S20", "S21")


def test_delivery_in_the_training_process() -> None:
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(100):
        builder.fetch(number % 2, 0.05, cpu=0.5).step(0.075, 0.3, ready=8, wait_cpu_ns=int(0.04 * S))
    finding = only(run(builder))
    assert finding.scenario == "S13"
    assert "More workers or more prefetch will not help" in finding.advice


@pytest.mark.parametrize(
    ("wait_cpu", "others", "scenario"),
    [
        (0.075, 0.9, "S14"),
        (0.065, 0.3, "S14"),  # on a busy machine
        (0.065, 0.0, "S13"),
        (0.14, 0.5, "S13"),  # threads of the model, which compute without the lock
        (0.5, 12.0, "S13"),
    ],
)
def test_a_little_work_beside_a_thread_that_holds_the_lock_is_no_slow_delivery(
    wait_cpu: float, others: float, scenario: str
) -> None:
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(150):
        builder.fetch(number % 2, 0.05, cpu=0.5).step(0.1, 0.06, ready=8, wait_cpu_ns=int(wait_cpu * 0.1 * S))
    watch(builder, 2, cpu=0.3, main_cpu=others + 0.05, main_main_cpu_ratio=0.05)
    assert only(run(builder)).scenario == scenario


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
    """Delivery is a seventh of the wait, but a fifth of an iteration. One wait is still open."""
    builder = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(9):
        builder.fetch(number % 2, 0.001, cpu=0.9).step(0.0, 0.25, ready=8)  # left out
    for number in range(8):
        builder.fetch(number % 2, 0.001, cpu=0.9).step(0.2, 0.25, ready=7, wait_cpu_ns=int(0.028 * S))
    if going_on:
        builder.open("wait", 2.0, awaited_worker=0)
    assert only(run(builder, cpus=2, busy=1.0)).scenario == "S13"


# ---- S54: a thread that reads the loader ahead, and works on each batch itself


def read_ahead(info: LoaderInfo, *, fetch: float, wait: float, step: float, ready: int) -> RankBuilder:
    """Batches that a thread hands on, each after ``wait`` of the loop's."""
    builder = RankBuilder(loaders=[info])
    for number in range(200):
        worker = number % info.num_workers if info.num_workers else -1
        builder.fetch(worker, fetch, cpu=0.5)
        builder.step(wait, step, ready=ready, off_main_thread=ReadBy.AHEAD, wait_cpu_ns=int(0.0002 * S))
    return builder


def test_batches_lie_ready_for_a_thread_that_is_slow() -> None:
    info = loader(num_workers=2, reader="fill")
    finding = only(run(read_ahead(info, fetch=0.01, wait=0.1, step=0.03, ready=4), cpus=64))
    assert finding.scenario == "S54"
    assert "fill" in finding.title
    assert "more workers" in finding.advice
    assert finding.gain_ceiling_ratio == pytest.approx(0.1 / 0.13, abs=0.05)


def test_a_thread_that_reads_quickly_and_then_works() -> None:
    info = loader(num_workers=0, reader="fill")
    finding = only(run(read_ahead(info, fetch=0.02, wait=0.1, step=0.03, ready=0), cpus=64))
    assert finding.scenario == "S54"


def test_a_thread_that_reads_every_sample_itself() -> None:
    info = loader(num_workers=0, reader="fill")
    finding = only(run(read_ahead(info, fetch=0.13, wait=0.1, step=0.03, ready=0), cpus=64))
    assert finding.scenario == "S01"
    assert "in the thread fill, 130 ms each" in finding.title
    assert "training thread" not in finding.title + finding.cause


def test_the_loop_itself_does_not_get_what_lies_ready() -> None:
    finding = only(run(read_ahead(loader(num_workers=2), fetch=0.01, wait=0.1, step=0.03, ready=4), cpus=64))
    assert finding.scenario == "S14"


def test_workers_behind_the_thread_are_too_slow() -> None:
    info = loader(num_workers=2, reader="fill")
    finding = only(run(read_ahead(info, fetch=0.25, wait=0.1, step=0.03, ready=0), cpus=64))
    assert finding.scenario == "S02"


def test_a_thread_whose_batches_the_loop_does_not_wait_for_as_far_as_is_known() -> None:
    """What is recorded is then the thread's own wait, and says nothing of the loop's."""
    builder = RankBuilder(loaders=[loader(num_workers=0, reader="fill")])
    for _ in range(200):
        builder.step(0.2, 0.001, off_main_thread=ReadBy.THREAD)
    assert not [finding for finding in detect(RunEvidence(run(builder))) if finding.severity != "info"]


def unpacked(cpu_s: float, pressure: float | None, delayed: float | None = None) -> list[str]:
    """What alerts where unpacking a batch costs so many CPU seconds, on a host with such a pressure."""
    rank = RankBuilder(loaders=[loader(prefetch_factor=4)])
    for number in range(2000):
        rank.fetch(number % 2, 0.002, cpu=0.9).step(0.006, 0.004, ready=4, wait_cpu_ns=int(cpu_s * S))
    watch(rank, 2, cpu=0.4, main_cpu=0.5, main_run_delay_ratio=math.nan if delayed is None else delayed)
    return [
        one.scenario
        for one in detect(
            RunEvidence(run(rank, host={} if pressure is None else {"psi_cpu_some_ratio": pressure}))
        )
        if one.severity == "critical"
    ]


@pytest.mark.parametrize(("pressure", "delayed"), [(0.9, None), (0.1, 0.8), (None, 0.9)])
def test_a_slow_host_makes_no_small_batch_a_large_one(pressure: float | None, delayed: float | None) -> None:
    assert unpacked(0.0024, pressure, delayed) == []
    assert unpacked(0.0059, pressure, delayed) == ["S13"]  # three times as much is too much there, too


def test_the_same_batch_on_an_idle_host_is_large() -> None:
    assert unpacked(0.0024, 0.0) == ["S13"]


def test_the_slowness_of_a_host_without_evidence_is_how_busy_it_is() -> None:
    rank = RankBuilder()
    for _ in range(10):
        rank.step(0.01, 0.1)
    window = run(rank, busy=0.5)
    assert RunEvidence(window).ranks[0].slowness == pytest.approx(2.0)
    full = run(rank, host={"psi_cpu_some_ratio": 1.0})
    assert RunEvidence(full).ranks[0].slowness == SLOWEST


@pytest.mark.parametrize(("pressure", "told"), [(0.0, "S12"), (1.0, "S02")])
def test_a_short_collation_on_a_slow_host_is_no_cause(pressure: float, told: str) -> None:
    rank = starve(RankBuilder(), fetch=0.012, step=0.001, cpu=0.9, seconds=15.0, collate_ns=int(0.009 * S))
    assert only(run(rank, cpus=64, host={"psi_cpu_some_ratio": pressure})).scenario == told


def test_garbage_that_is_collected_between_two_passes_is_no_wait() -> None:
    rank = RankBuilder(loaders=[loader(num_workers=0)])
    for epoch in range(4):
        rank.epoch[0], rank.batch[0] = epoch, 0
        for _ in range(40):
            rank.fetch(-1, 0.05, cpu=0.9).step(0.05, 0.05)
        rank.add("collections", worker=-1, request_ns=rank.now_ns + S // 10, duration_ns=4 * S)
        rank.now_ns += 5 * S
    rank.epoch[0], rank.batch[0] = 4, 0
    for _ in range(80):
        rank.fetch(-1, 0.05, cpu=0.9).step(0.05, 0.05)
    assert only(run(rank)).scenario == "S01"
