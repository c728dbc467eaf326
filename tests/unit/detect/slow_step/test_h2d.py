"""S17: copies to the GPU that keep it idle, and the waits that only look like them."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding
from loaderwatch.detect.slow_step.h2d import detect as detect_copies
from tests.unit.detect.build import RankBuilder, S, loader, run
from tests.unit.detect.workers import only

IMAGES = 256 * 3 * 224 * 224 * 4  # the batch of pytorch#16901


def copying(
    rank: int = 0,
    world: int = 1,
    *,
    before_model: float = 0.061,
    rest: float = 0.09,
    wait: float = 0.001,
    utilization: float | None = 0.58,
    size: int | None = IMAGES,
    pin_memory: bool | None = False,
    starved: float | None = None,
    on_device: float | None = None,
    steps: int = 150,
) -> RankBuilder:
    """Steps that begin with a copy to the GPU. ``utilization``: NVML's; ``starved``: part of each wait."""
    builder = RankBuilder(rank, world, loaders=[loader(pin_memory=pin_memory)])
    for number in range(steps):
        if size is not None:
            builder.fetch(number % 2, 0.05, cpu=0.5, bytes=size)
        request_ns = builder.now_ns
        builder.step(wait, before_model + rest, h2d_ns=int(before_model * S), ready=2)
        if utilization is not None:
            builder.add("gpus", gpu=0, utilization_ratio=utilization, pcie_rx_bytes_per_s=1.0e9)
        if on_device is not None and number % 8 == 0:
            builder.add("gpu_waits", loader=0, request_ns=request_ns, gpu_h2d_ns=int(on_device * S))
        if starved is not None:
            builder.add(
                "gpu_waits",
                loader=0,
                epoch=0,
                batch=number,
                request_ns=request_ns,
                starved_ns=int(starved * wait * S),
                gpu_step_ns=int((before_model + rest) * S),
            )
    return builder


def said(finding: Finding) -> dict[str, object]:
    return {item.label: item.value for item in finding.evidence}


def test_pageable_memory() -> None:
    finding = only(run(copying()))
    assert (finding.scenario, finding.code, finding.severity, finding.rank) == (
        "S17",
        "slow-step",
        "warning",
        0,
    )
    assert (
        "40 % of the time to copying batches to the GPU (measured over 15 s): 154 MB in 61 ms (2.5 GB/s)"
        in finding.title
    )
    assert "pin_memory=True" in finding.advice
    assert "154 MB in 61 ms, 2.5 GB/s" in finding.advice
    assert "it would take about 14 ms" in finding.advice
    assert said(finding)["received over PCIe, GB/s"] == pytest.approx(1.0)
    assert said(finding)["pin_memory"] == "False"


@settings(max_examples=30, deadline=None)
@given(
    before_model=st.floats(0.02, 0.2),
    rest=st.floats(0.01, 0.2),
    utilization=st.floats(0, 1),
    rate=st.floats(0.5e9, 20e9),
)
def test_no_more_is_promised_than_the_gpu_is_idle(
    before_model: float, rest: float, utilization: float, rate: float
) -> None:
    rank = copying(
        before_model=before_model, rest=rest, utilization=utilization, size=int(rate * before_model)
    )
    whole = 0.001 + before_model + rest
    for finding in detect(RunEvidence(run(rank))):
        assert finding.scenario == "S17"
        assert finding.gain_ceiling_ratio is not None
        assert 0.09 < finding.gain_ceiling_ratio <= min(before_model / whole, 1 - utilization) + 1e-6


def test_pinned_memory_asks_for_copies_that_do_not_block() -> None:
    finding = only(run(copying(pin_memory=True, before_model=0.03, rest=0.03, utilization=0.5)))
    assert "non_blocking=True" in finding.advice
    assert "Set pin_memory=True" not in finding.advice
    assert "pin_memory() method" in finding.cause


def test_a_bus_at_its_limit_is_not_told_to_pin() -> None:
    finding = only(run(copying(before_model=0.012, rest=0.02, utilization=0.6, steps=250)))
    assert "at about the speed of the bus" in finding.cause
    assert "pin_memory=True" not in finding.advice
    assert "side stream" in finding.advice
    assert not re.search("it would take about", finding.advice)


@pytest.mark.parametrize(
    "rank",
    [
        copying(utilization=0.99),  # it waits for the kernels of the step before: .item() in disguise (N06)
        copying(utilization=0.93),
        copying(before_model=0.0005),  # queued and gone
        copying(before_model=0.008),
        copying(size=200_000),  # no bus needs 61 ms for so little: other work of the loop
        copying(utilization=None, starved=0.01),  # the GPU was busy still when the batch was asked for
        copying(steps=20),
    ],
)
def test_what_is_no_copy(rank: RankBuilder) -> None:
    assert detect(RunEvidence(run(rank))) == []


def test_a_model_on_the_host_copies_nothing() -> None:
    builder = RankBuilder()
    for number in range(200):
        builder.fetch(number % 2, 0.05).step(0.0005, 0.1, ready=2, forward_ns=int(0.03 * S))
    assert detect_copies(RunEvidence(run(builder))) == []


def test_waiting_for_data_is_not_counted_twice() -> None:
    """The GPU is idle, but because no batch is there."""
    rank = copying(before_model=0.03, rest=0.03, wait=0.1, utilization=0.3)
    assert detect_copies(RunEvidence(run(rank))) == []


def test_without_a_reading_of_the_gpu_it_is_a_remark() -> None:
    (finding,) = detect(RunEvidence(run(copying(utilization=None))))
    assert (finding.scenario, finding.severity) == ("S17", "info")
    assert "There is no reading of the GPU" in finding.cause


def test_events_prove_it_too() -> None:
    """The GPU had finished when the batch was asked for, so there was nothing the copy could wait for."""
    assert only(run(copying(utilization=None, starved=0.97))).scenario == "S17"


def test_a_batch_of_unknown_size_is_a_remark() -> None:
    (finding,) = detect(RunEvidence(run(copying(size=None))))
    assert (finding.scenario, finding.severity) == ("S17", "info")
    assert "61 ms each" in finding.title
    for item in finding.evidence:
        assert not (isinstance(item.value, float) and math.isnan(item.value)), item.label


def test_most_of_the_time_is_critical() -> None:
    assert only(run(copying(before_model=0.1, rest=0.05, utilization=0.3))).severity == "critical"


def test_all_ranks_are_one_finding() -> None:
    finding = only(run(*(copying(rank, 4) for rank in range(4))))
    assert finding.title.startswith("All 4 ranks lose up to 40 % of the time")
    assert finding.rank is None


def test_one_rank_of_several() -> None:
    finding = only(run(copying(0, 2, utilization=0.99), copying(1, 2)))
    assert finding.rank == 1
    assert finding.title.startswith("Rank 1 loses")


def test_pauses_in_front_of_the_model_are_no_copies() -> None:
    """Something slow now and then, before the model is called: S26's."""
    builder = RankBuilder(loaders=[loader(pin_memory=False)])
    for number in range(200):
        before = 1.0 if number % 20 == 0 else 0.0005
        builder.fetch(number % 2, 0.05, bytes=IMAGES)
        builder.step(0.001, before + 0.1, h2d_ns=int(before * S), ready=2)
        builder.add("gpus", gpu=0, utilization_ratio=0.6)
    assert detect_copies(RunEvidence(run(builder))) == []


def test_what_waits_for_kernels_is_no_copy_by_the_gpus_own_clock() -> None:
    """The loop stands 61 ms in a copy that takes the GPU 2: it waits for the kernels of the step before."""
    assert not detect(RunEvidence(run(copying(utilization=None, on_device=0.002))))
    proven = only(run(copying(utilization=None, on_device=0.06)))
    assert (proven.scenario, proven.severity) == ("S17", "warning"), "known without a reading of NVML"
    assert proven.gain_ceiling_ratio == pytest.approx(0.06 / 0.152, abs=0.01)
