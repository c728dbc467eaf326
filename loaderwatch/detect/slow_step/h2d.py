"""Copies of batches to the GPU that take long: S17, code ``slow-step``.

The time from a batch's delivery to the model's first call is measured. CUDA is asynchronous, so a blocking
copy also waits for the kernels of the step before. That is no loss, because the GPU computes meanwhile: the
wait of a later ``.item()`` has moved here (Lightning#20995). So a copy costs at most the time in which the
GPU ran no kernel and did not wait for data. NVML's utilization counts kernels, not copies. The device's own
clock, if it times its phases, leaves these kernels out as well. CUDA events show the rest: if the GPU had
finished when the batch was requested, the copy has no kernels to wait for. With neither utilization nor
events, the finding is a remark. If so few bytes take so long that no bus can be the cause, the time is other
work of the loop, and nothing is reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.answers import Evidence, Severity
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import SLOW_STEP as CODE
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence, who
from loaderwatch.detect.measures.gain import gain_ratio
from loaderwatch.detect.measures.gpu import device_phase_s, gpu_evidence
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, median, ratio, total
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow, seconds

ROUGH_LOOK_STEPS: Final = threshold(
    64, "steps", "chosen: the newest steps, for a cheap first look; most ranks of most runs copy little"
)
LEAST_COPYING_S: Final = threshold(
    5.0, "s", "chosen: of steps; a mean utilization of fewer seconds means little"
)
FEW_GPU_READINGS: Final = threshold(
    10, "readings", "chosen: of the GPU, or CUDA events; one second of readings at ten a second"
)
MEASURED_COPIES_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the steps whose copy must have been measured"
)
SHORT_EVENT_WAIT_S: Final = threshold(
    50e-6, "s", "recording two CUDA events takes a few microseconds; of a shorter wait they say nothing"
)
IDLE_STREAM_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a data wait; with its stream idle for more, the GPU had finished before"
)
CRITICAL_COPY_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the time, above the usual 0.3: the GPU's idle time shows a copy only indirectly"
)
SLOWEST_COPY_BYTES_PER_S: Final = threshold(
    0.3e9,
    "bytes/s",
    "1.4 to 6 GB/s are measured from pageable memory (pytorch#138018, dask-cuda#98); slower is other work",
)
BUS_SPEED_BYTES_PER_S: Final = threshold(
    10e9, "bytes/s", "chosen: near the 11 GB/s of pinned memory, so pinning has little left to gain"
)
PINNED_COPY_BYTES_PER_S: Final = threshold(
    11e9, "bytes/s", "measured from pinned memory on PCIe 3.0 x16 (pytorch#16901, dask-cuda#98)"
)
WORTH_PINNING_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of a copy's time; a pinned copy that takes more is not worth naming"
)


@dataclass(frozen=True)
class Copies:
    """The time and the bytes of copying batches to the GPU, per step of one rank; NaN if not known."""

    pace: Pace
    before_model_s: float  # median, from delivery to the model's first call
    copy_s: float  # the part of it with an idle GPU, at most the device clock's own time for it
    bytes: float
    utilization: float
    proven: bool

    @property
    def share(self) -> float:
        """Return the share (0 to 1) of the time that the copies take."""
        return ratio(self.lost_s, self.pace.elapsed_s)

    @property
    def lost_s(self) -> float:
        """Return the seconds that the copies of all steps take together."""
        return self.copy_s * self.pace.wait_s.size

    @property
    def rate(self) -> float:
        """Return how many bytes per second the copies move; NaN if the bytes are not known."""
        return self.bytes / self.copy_s


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding: that of the rank that loses most, which also names the other ranks."""
    slow_copies = [
        copies
        for rank in run.live_ranks
        if _may_copy(rank.rows, run.limits)
        for now in rank.recent_paces
        if (copies := _copies(now, rank.slowness, run.limits)) is not None
    ]
    if not slow_copies:
        return []
    worst = max(slow_copies, key=lambda copies: (copies.proven, copies.lost_s))
    ranks = run.window.standing_for(sorted({copies.pace.rank.rank for copies in slow_copies}))
    return [_finding(worst, ranks, run.world_size)]


def _may_copy(rank: RankWindow, limits: Limits) -> bool:
    """Whether a rank is worth a closer look. This check is rough but cheap, because most ranks are not."""
    steps = rank.table("steps")
    before_model, whole = steps["h2d_ns"][-ROUGH_LOOK_STEPS:], steps["step_ns"][-ROUGH_LOOK_STEPS:]
    spent, step_ns = before_model[before_model > 0].sum(), whole[whole > 0].sum()  # UNKNOWN is negative
    return bool(spent > 0.5 * limits.input_warning_ratio * step_ns)


def _copies(now: Pace, slowness: float, limits: Limits) -> Copies | None:
    if now.total_s < LEAST_COPYING_S:
        return None
    steps = now.rank.table("steps")
    mine = (steps["loader"] == now.loader.loader) & np.isin(steps["request_ns"], now.request_ns)
    taken_s = seconds(steps["h2d_ns"][mine])
    if np.isfinite(taken_s).sum() < MEASURED_COPIES_RATIO * now.wait_s.size:
        return None
    # Not the mean: a rare pause before the model is no copy. The device counts no kernels of the step before.
    before_model_s = median(taken_s)
    on_device_s = device_phase_s(now.rank, "h2d", int(now.request_ns[0]))
    utilization, idle_s = _idle_s(now)
    finished = _finished_before(now)
    copy_s = min(bound for bound in (before_model_s, idle_s, on_device_s) if math.isfinite(bound))
    copies = Copies(
        pace=now,
        before_model_s=before_model_s,
        copy_s=copy_s,
        bytes=median(now.fetches.bytes),
        utilization=utilization,
        proven=math.isfinite(idle_s) or math.isfinite(on_device_s) or finished is True,
    )
    enough = (
        copies.share >= limits.input_warning_ratio
        and copies.copy_s >= limits.input_step_floor_s * slowness
        and copies.lost_s >= limits.input_floor_s
    )
    if not enough or copies.rate < SLOWEST_COPY_BYTES_PER_S or (finished is False and not copies.proven):
        return None
    return copies


def _idle_s(now: Pace) -> tuple[float, float]:
    """Return the GPU's utilization (0 to 1) and its idle seconds per iteration with the batch there.

    Both are NaN with too few readings.
    """
    gpus = now.rank.table("gpus")
    values = gpus["utilization_ratio"][gpus["t_ns"] >= now.request_ns[0]]
    if np.isfinite(values).sum() < FEW_GPU_READINGS:
        return math.nan, math.nan
    utilization = mean(values)
    waits = now.rank.table("gpu_waits")
    mine = (waits["loader"] == now.loader.loader) & (waits["request_ns"] >= now.request_ns[0])
    starved, worked = total(seconds(waits["starved_ns"][mine])), total(seconds(waits["gpu_step_ns"][mine]))
    starving = ratio(starved, starved + worked)
    waiting = starving if math.isfinite(starving) else now.share
    return utilization, max(0.0, 1 - utilization - waiting) * now.iteration_s


def _finished_before(now: Pace) -> bool | None:
    """Whether the GPU had finished when a batch was requested; None without enough CUDA events."""
    waits = now.rank.table("gpu_waits")
    mine = waits["loader"] == now.loader.loader
    own, rows, events = np.intersect1d(now.request_ns, waits["request_ns"][mine], return_indices=True)
    wait_s = now.loop_wait_s[rows]
    starved_s = seconds(waits["starved_ns"][mine][events])
    long = wait_s >= SHORT_EVENT_WAIT_S
    if own.size < FEW_GPU_READINGS or long.sum() < FEW_GPU_READINGS:
        return None
    return median(starved_s[long] / wait_s[long]) >= IDLE_STREAM_RATIO


def _finding(copies: Copies, ranks: list[int], world: int) -> Finding:
    pace = copies.pace
    is_one_rank = world <= 1 or len(ranks) == 1
    known = math.isfinite(copies.bytes)
    sure = copies.proven and known
    pinned_s = copies.bytes / PINNED_COPY_BYTES_PER_S
    severity: Severity = (
        "info" if not sure else "critical" if copies.share >= CRITICAL_COPY_RATIO else "warning"
    )
    return Finding(
        key=f"{CODE}:S17",
        code=CODE,
        scenario="S17",
        severity=severity,
        confidence=0.8 if sure else 0.4,
        began_ns=int(pace.request_ns[0]),
        rule=_rule(copies),
        params={
            **who(ranks, world),
            "lost_ratio": copies.share,
            "elapsed_s": pace.total_s,
            "batch_bytes": copies.bytes if known else None,
            "copy_s": copies.copy_s,
            "copied_bytes_per_s": copies.rate if known else None,
            "before_model_s": copies.before_model_s,
            "iteration_s": pace.iteration_s,
            "proven": copies.proven,
            "busy_ratio": copies.utilization if copies.utilization >= 0 else None,
            "pinned_s": pinned_s if pinned_s <= WORTH_PINNING_RATIO * copies.copy_s else None,
        },
        evidence=_evidence(copies),
        rank=pace.rank.rank if is_one_rank else None,
        host=pace.rank.host,
        pid=pace.rank.process.pid if is_one_rank else None,
        lost_s=copies.lost_s,
        gain_ceiling_ratio=gain_ratio(pace.iteration_s, pace.iteration_s - copies.copy_s),
    )


def _rule(copies: Copies) -> str:
    if copies.rate >= BUS_SPEED_BYTES_PER_S:
        return "copies-at-bus-speed"
    return "blocking-copies" if copies.pace.loader.pin_memory else "copies-from-pageable-memory"


def _evidence(copies: Copies) -> list[Evidence]:
    pace = copies.pace
    gpus = pace.rank.table("gpus")
    received = mean(gpus["pcie_rx_bytes_per_s"][gpus["t_ns"] >= pace.request_ns[0]])
    pinned = pace.loader.pin_memory
    return [
        *known_evidence(
            ("arrival-of-a-batch-to-the-models-first-call", copies.before_model_s, "s"),
            ("with-an-idle-gpu-at-most", copies.copy_s, "s"),
            ("share-of-the-time", copies.share, "ratio"),
            ("iteration", pace.iteration_s, "s"),
            ("data-wait", pace.share, "ratio"),
            ("bytes-of-a-batch", copies.bytes, "bytes"),
            ("copy-gb-s", copies.rate / 1e9, "count"),
            ("received-over-pcie-gb-s", received / 1e9, "count"),
            ("pin-memory", None if pinned is None else str(pinned), "text"),
        ),
        *gpu_evidence(pace),
    ]
