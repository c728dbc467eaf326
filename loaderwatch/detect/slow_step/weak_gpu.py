"""A GPU that computes slower than it should: S48, code ``slow-step``.

``core.records.BAD_REASONS`` lists which of NVML's reasons for a low clock are faults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Param, Severity, Text
from loaderwatch.core.records import BAD_BITS, BAD_REASONS
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import SLOW_STEP as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.gpu import device_phase_s
from loaderwatch.detect.measures.statistics import mean, median, quantile
from loaderwatch.detect.window import RankWindow, first_at, seconds

WEAK_LOOK_BACK_NS: Final = threshold(
    8_000_000_000, "ns", "chosen: half of it must be bad readings, and an alert is due after ten seconds"
)
FORWARD_LOOK_BACK_NS: Final = threshold(
    15_000_000_000, "ns", "chosen: forward passes of the last 15 s, the recent past of other rules"
)
FEW_BUSY_READINGS: Final = threshold(20, "readings", "chosen: two seconds of readings, at ten a second")
BUSY_READING_RATIO: Final = threshold(
    0.3, "ratio", "chosen: utilization of a reading that counts; an idle GPU lowers its clock, rightly"
)
THROTTLED_READINGS_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the busy readings that give a reason for a slower clock"
)
SLOW_CLOCK_RATIO: Final = threshold(0.9, "ratio", "chosen: of the other GPUs' clock, or of its own best")
SHARED_SLOW_FACTOR: Final = threshold(
    1.25, "factor", "chosen: a shared GPU's forward pass over that of the others"
)


def throttle_reasons(bits: int) -> list[Text]:
    """Return what slows a GPU down, by these bits."""
    return [Text("throttle-reason", {"reason": name}) for bit, name in BAD_REASONS.items() if bits & bit]


@dataclass(frozen=True)
class _Gpu:
    rank: RankWindow
    reasons: int  # bits set in most of the busy readings
    held_ratio: float
    clock_hz: float
    best_hz: float
    temperature_c: float
    power_ratio: float
    other_pids: int
    launched_s: float  # the forward pass by the loop's clock
    computed_s: float  # the forward pass by the device's clock; NaN if not timed


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding: that of the worst GPU."""
    if not any(_may_be_weak(rank.rows) for rank in run.ranks.values()):
        return []
    gpus = [gpu for rank in run.live_ranks if (gpu := _gpu(rank.rows)) is not None]
    bad = [gpu for gpu in gpus if gpu.reasons]
    if bad:
        worst = min(bad, key=lambda gpu: gpu.clock_hz if math.isfinite(gpu.clock_hz) else math.inf)
        return [_throttled(worst, gpus)]
    for gpu in gpus:
        if gpu.other_pids <= 0:
            continue
        others = [other for other in gpus if other is not gpu]
        forward_s, typical_s = _against(gpu, others)
        if forward_s >= SHARED_SLOW_FACTOR * typical_s > 0:
            return [_shared(gpu, forward_s, typical_s)]
    return []


def _against(gpu: _Gpu, others: list[_Gpu]) -> tuple[float, float]:
    """Return the forward pass in seconds on a GPU, and the others' median by the same clock; or NaN.

    It is the device's clock if it timed all of them: launching kernels takes equally long on a shared GPU.
    """
    if not others:
        return math.nan, math.nan
    computed_s = [other.computed_s for other in others]
    if math.isfinite(gpu.computed_s) and np.isfinite(computed_s).all():
        return gpu.computed_s, median(np.array(computed_s))
    return gpu.launched_s, median(np.array([other.launched_s for other in others]))


def _may_be_weak(rank: RankWindow) -> bool:
    """Whether a recent reading is throttled or shared. Cheap, because most of a thousand GPUs are well."""
    rows = rank.table("gpus")
    first = first_at(rows["t_ns"], rank.made_ns - WEAK_LOOK_BACK_NS)
    reasons = rows["throttle_reasons"][first:]
    reasons = reasons[reasons > 0]
    return bool((reasons & BAD_BITS).any()) or bool((rows["other_pids"][first:] > 0).any())


def _gpu(rank: RankWindow) -> _Gpu | None:
    rows = rank.table("gpus")
    late = (rows["t_ns"] >= rank.made_ns - WEAK_LOOK_BACK_NS) & (
        rows["utilization_ratio"] >= BUSY_READING_RATIO
    )
    if int(late.sum()) < FEW_BUSY_READINGS:
        return None
    bits = np.where(rows["throttle_reasons"][late] > 0, rows["throttle_reasons"][late], 0)
    held = {bit: float(((bits & bit) != 0).mean()) for bit in BAD_REASONS}
    reasons = sum(bit for bit, part in held.items() if part >= THROTTLED_READINGS_RATIO)
    others = rows["other_pids"][late]
    steps = rank.table("steps")
    newer = steps["request_ns"] >= rank.made_ns - FORWARD_LOOK_BACK_NS
    return _Gpu(
        rank=rank,
        reasons=reasons,
        held_ratio=max(held.values()),
        clock_hz=median(rows["sm_clock_hz"][late]),
        best_hz=quantile(rows["sm_clock_hz"], 0.98),
        temperature_c=mean(rows["temperature_c"][late]),
        power_ratio=mean(rows["power_w"][late] / rows["power_limit_w"][late]),
        other_pids=int(np.median(others[others >= 0])) if (others >= 0).any() else 0,
        launched_s=_forward_s(steps["forward_ns"][newer]),
        computed_s=device_phase_s(rank, "forward", rank.made_ns - FORWARD_LOOK_BACK_NS),
    )


def _forward_s(forward_ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    return median(seconds(np.where(forward_ns > 0, forward_ns, -(2**63))))


def _throttled(gpu: _Gpu, gpus: list[_Gpu]) -> Finding:
    others = [other.clock_hz for other in gpus if other is not gpu and not other.reasons]
    reference_hz = median(np.array(others)) if others else gpu.best_hz
    ratio = gpu.clock_hz / reference_hz if reference_hz > 0 else math.nan
    slow = ratio <= SLOW_CLOCK_RATIO
    known = math.isfinite(ratio)
    # A throttle that shows only in its bits and does not lower the clock is a remark.
    return _finding(
        gpu,
        severity="warning" if slow else "info",
        confidence=0.9 if slow else 0.6,
        rule="gpu-throttled",
        params={
            "reasons": throttle_reasons(gpu.reasons),
            "held_ratio": gpu.held_ratio,
            "clock_hz": gpu.clock_hz if known else None,
            "clock_ratio": ratio if known else None,
            "against": "others" if others else "best",
            "temperature_c": gpu.temperature_c if math.isfinite(gpu.temperature_c) else None,
        },
        gain=1 - ratio if slow else None,
    )


def _shared(gpu: _Gpu, forward_s: float, typical_s: float) -> Finding:
    return _finding(
        gpu,
        severity="warning",
        confidence=0.75,
        rule="gpu-shared",
        params={"others": gpu.other_pids, "times": forward_s / typical_s},
        gain=1 - typical_s / forward_s,
    )


def _finding(
    gpu: _Gpu,
    *,
    severity: Severity,
    confidence: float,
    rule: str,
    params: dict[str, Param],
    gain: float | None,
) -> Finding:
    rank = gpu.rank
    return Finding(
        key=f"{CODE}:gpu:rank{rank.rank}",
        code=CODE,
        scenario="S48",
        severity=severity,
        confidence=confidence,
        began_ns=rank.made_ns - WEAK_LOOK_BACK_NS,
        rule=rule,
        params={"rank": rank.rank if rank.process.world_size > 1 else None, **params},
        evidence=known_evidence(
            ("sm-clock-mhz", gpu.clock_hz / 1e6, "count"),
            ("best-sm-clock-mhz", gpu.best_hz / 1e6, "count"),
            ("temperature-c", gpu.temperature_c, "count"),
            ("power-against-its-limit", gpu.power_ratio, "ratio"),
            ("readings-with-that-reason", gpu.held_ratio, "ratio"),
            ("other-processes-on-the-gpu", gpu.other_pids, "count"),
            ("forward-on-the-gpu", gpu.computed_s, "s"),
            ("forward", gpu.launched_s, "s"),
        ),
        rank=rank.rank,
        host=rank.host,
        gain_ceiling_ratio=gain,
    )
