"""S54: a thread that reads the loader ahead, and works on each batch itself."""

from __future__ import annotations

import pytest

from loaderwatch.core.facts import LoaderInfo
from loaderwatch.core.records import ReadBy
from loaderwatch.detect.detectors import detect
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import only


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
    assert not [finding for finding in detect(run(builder)) if finding.severity != "info"]
