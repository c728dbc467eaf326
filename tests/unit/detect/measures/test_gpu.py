"""What the GPU adds to a finding, and what stands in for it."""

from __future__ import annotations

import math

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.measures.gpu import device_phase_s
from tests.unit.detect.build import RankBuilder, S, run


def starved(*, gpu: bool) -> RankBuilder:
    builder = RankBuilder()
    for number in range(150):
        request_ns = builder.now_ns
        builder.fetch(0, 0.2, cpu=0.1).fetch(1, 0.2, cpu=0.1).step(0.16, 0.04)
        if gpu:
            builder.add("gpus", gpu=0, t_ns=request_ns + S // 20, utilization_ratio=0.0, power_w=80.0)
            builder.add("gpus", gpu=0, t_ns=builder.now_ns - S // 50, utilization_ratio=0.95, power_w=300.0)
            builder.add(
                "gpu_waits",
                loader=0,
                epoch=0,
                batch=number,
                request_ns=request_ns,
                starved_ns=int(0.15 * S),
                gpu_step_ns=int(0.05 * S),
            )
    return builder


def evidence(builder: RankBuilder) -> dict[str, object]:
    (finding,) = detect(RunEvidence(run(builder)))
    return {item.label: item.value for item in finding.evidence}


def test_a_sawtooth_is_told_in_numbers() -> None:
    told = evidence(starved(gpu=True))
    assert told["GPU utilization"] == pytest.approx(0.475, abs=0.01)
    assert told["GPU swings between"] == "0% and 95%"
    assert told["GPU starved (idle on its own stream)"] == pytest.approx(0.75, abs=0.01)
    assert "compute duty (no GPU seen)" not in told


def test_without_a_gpu_the_duty_of_the_loop_is_labelled_so() -> None:
    told = evidence(starved(gpu=False))
    assert told["compute duty (no GPU seen)"] == pytest.approx(0.2, abs=0.02)
    assert "GPU utilization" not in told


def test_a_phase_is_timed_when_enough_steps_are() -> None:
    rank = RankBuilder()
    for number in range(4):
        rank.add("gpu_waits", loader=0, gpu_forward_ns=(number + 1) * S // 100).step(0.0, 0.1)
    window = rank.build()
    assert device_phase_s(window, "forward", 0) == pytest.approx(0.025)
    assert math.isnan(device_phase_s(window, "backward", 0))
    assert math.isnan(device_phase_s(window, "forward", rank.now_ns - S // 4)), "two are too few"
