"""A throttled or shared GPU, by NVML's columns."""

from __future__ import annotations

import pytest

from loaderwatch.detect.detectors import detect
from loaderwatch.detect.evidence import RunEvidence
from tests.unit.detect.build import RankBuilder, S, loader, run


def with_gpu(
    rank: int = 0,
    world: int = 1,
    *,
    clock: float = 1.98e9,
    reasons: int = 0,
    utilization: float = 0.95,
    other_pids: int = 0,
    forward: float = 0.03,
    computed: float | None = None,
) -> RankBuilder:
    builder = RankBuilder(rank, world, loaders=[loader()])
    for number in range(300):
        if computed is not None and number % 8 == 0:
            builder.add("gpu_waits", loader=0, gpu_forward_ns=int(computed * S))
        builder.step(0.0005, 0.0995, forward_ns=int(forward * S))
        builder.add(
            "gpus",
            utilization_ratio=utilization,
            sm_clock_hz=1.98e9 if number < 100 else clock,
            throttle_reasons=0 if number < 100 else reasons,
            other_pids=other_pids,
            temperature_c=91.0,
            power_w=300.0,
            power_limit_w=700.0,
        )
    return builder


@pytest.mark.parametrize(
    ("reasons", "name"),
    [
        (0x40, "hardware thermal"),
        (0x08, "hardware slowdown"),
        (0x80, "power brake"),
        (0x24, "software thermal"),
    ],
)
@pytest.mark.parametrize("world", [1, 4])
def test_a_throttled_gpu_is_named_with_its_reason(reasons: int, name: str, world: int) -> None:
    ranks = [with_gpu(rank, world) for rank in range(world - 1)]
    ranks.append(with_gpu(world - 1, world, clock=1.2e9, reasons=reasons))
    (finding,) = detect(RunEvidence(run(*ranks)))
    assert (finding.scenario, finding.severity, finding.rank) == ("S48", "warning", world - 1)
    assert name in finding.title
    assert "61 %" in finding.title
    assert "91 °C" in finding.cause
    assert finding.gain_ceiling_ratio == pytest.approx(1 - 1.2 / 1.98, abs=0.01)


@pytest.mark.parametrize(
    "gpu",
    [
        with_gpu(clock=1.2e9, reasons=0x04),  # a power cap
        with_gpu(clock=0.3e9, reasons=0x01, utilization=0.0),  # idle
        with_gpu(clock=0.3e9, reasons=0x40, utilization=0.05),
        with_gpu(),
        with_gpu(other_pids=2),  # alone, nobody can say that it is slow
    ],
)
def test_what_is_benign(gpu: RankBuilder) -> None:
    assert detect(RunEvidence(run(gpu))) == []


def test_a_reason_that_costs_no_clock_is_a_remark() -> None:
    (finding,) = detect(RunEvidence(run(with_gpu(reasons=0x40))))
    assert (finding.scenario, finding.severity) == ("S48", "info")


def test_a_shared_gpu_that_is_slower_than_the_others() -> None:
    ranks = [with_gpu(0, 2), with_gpu(1, 2, other_pids=1, forward=0.06)]
    (finding,) = detect(RunEvidence(run(*ranks)))
    assert (finding.scenario, finding.rank) == ("S48", 1)
    assert "1 other process" in finding.title


def test_a_shared_gpu_that_keeps_up_is_well() -> None:
    assert detect(RunEvidence(run(with_gpu(0, 2), with_gpu(1, 2, other_pids=1)))) == []


def test_a_shared_gpu_is_as_slow_as_its_own_clock_says() -> None:
    """A shared GPU does not slow down kernel launches. A loop that launches slowly has no slow GPU."""
    launches = [with_gpu(0, 2, computed=0.03), with_gpu(1, 2, other_pids=1, computed=0.06)]
    (finding,) = detect(RunEvidence(run(*launches)))
    assert (finding.scenario, finding.rank) == ("S48", 1)
    assert "takes 2.0 times as long" in finding.title
    assert not detect(
        RunEvidence(
            run(with_gpu(0, 2, computed=0.03), with_gpu(1, 2, other_pids=1, forward=0.06, computed=0.03))
        )
    )
