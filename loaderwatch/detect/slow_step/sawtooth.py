"""A GPU that swings between busy and idle while data is there: S26, code ``gpu-sawtooth``.

The rule is that of SageMaker Debugger's LowGPUUtilization: 95th percentile of the utilization from 70 % and 5th
below 10 %. What it does not say is whose fault the idle times are. Here those in which a batch was missing, an
evaluation or an epoch's boundary went on, or no step at all, are taken out first: they have detectors of their
own. What is left lies within steps, and the phase of a step that is long enough to hold it is named.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Severity
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.coupling import coupling
from loaderwatch.detect.measures.gpu import SAWTOOTH_HIGH_RATIO, SAWTOOTH_LOW_RATIO
from loaderwatch.detect.measures.pace import Pace, paces
from loaderwatch.detect.measures.stacks import main_frames, user_frame
from loaderwatch.detect.measures.statistics import mean, median, quantile
from loaderwatch.detect.slow_step.weak_gpu import BAD_REASONS
from loaderwatch.detect.text import duration, percent
from loaderwatch.detect.window import RankWindow, RunWindow, first_at, seconds

CODE: Final = "gpu-sawtooth"
LOOK_BACK_S = 30.0
FEW_READINGS = 150  # half of what comes in that time, at ten a second
CYCLES = 5  # swings from which it is a habit
CALM_RATIO = 0.05  # readings with another process on the GPU, or a throttle, from which those are to blame
HOLDS = 0.6  # a phase that takes this much of the idle time of a step is where it lies
SHORT_WAIT_S = 0.05  # a lost wait shorter than this is no swing of its own
READING_S = 1.0  # a reading is a mean of up to so long before it (nvml.h: a sixth of a second to a second)
BAD_BITS = sum(BAD_REASONS)

PHASES: Final = {
    "other": "the loop's own work in the step (logging, metrics, copies back from the GPU)",
    "optimizer": "optimizer.step(), on the CPU",
    "forward": "the forward pass, on the CPU",
    "backward": "the backward pass, on the CPU",
}


@dataclass(frozen=True)
class Swing:
    """How a rank's GPU swings, and how much of its idle time lies in steps that had their batch."""

    rank: RankWindow
    pace: Pace
    high: float  # utilization, 0 to 1
    low: float
    period_s: float  # from one idle time to the next, median
    idle: float  # share of the readings that are low, 0 to 1
    unexplained: float  # of all readings, those that are low within a step
    began_ns: int


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """Return at most one finding, that of the rank whose GPU loses most.

    Ranks that wait for each other idle for that, which is told by other detectors.
    """
    together = coupling(window, limits)
    if together is not None and together.state in ("waiting", "turns"):
        return []
    found = [swing for rank in window.ranks.values() if (swing := find_swing(rank, limits)) is not None]
    if not found:
        return []
    worst = max(found, key=lambda swing: swing.unexplained)
    return [_finding(worst, len(found), window.world_size)]


def find_swing(rank: RankWindow, limits: Limits) -> Swing | None:
    """Return how a rank's GPU swings within its steps; None where it does not, or other things explain it."""
    if rank.process.state != "live":
        return None
    rows = rank.table("gpus")
    first = first_at(rows["t_ns"], rank.made_ns - int(LOOK_BACK_S * 1e9))
    used, times = rows["utilization_ratio"][first:], rows["t_ns"][first:]
    known = np.isfinite(used)
    used, times = used[known], times[known]
    if used.size < FEW_READINGS or used.max() < SAWTOOTH_HIGH_RATIO or used.min() >= SAWTOOTH_LOW_RATIO:
        return None  # cheap: most of a thousand GPUs are well
    high, low = quantile(used, 0.95), quantile(used, 0.05)
    if high < SAWTOOTH_HIGH_RATIO or low >= SAWTOOTH_LOW_RATIO:
        return None
    if _is_anothers(rows["other_pids"][first:], rows["throttle_reasons"][first:]):
        return None
    is_low = used < (high + low) / 2
    starts = np.flatnonzero(is_low[1:] & ~is_low[:-1]) + 1
    if starts.size < CYCLES:
        return None
    pace = max(paces(rank), key=lambda pace: int(pace.request_ns[-1]), default=None)
    if pace is None:
        return None
    inside = is_low & _in_steps(pace, times)
    unexplained = float(inside.mean())
    if unexplained < limits.input_warning_ratio:
        return None
    return Swing(
        rank=rank,
        pace=pace.since(int(times[0])),
        high=high,
        low=low,
        period_s=median(np.diff(times[starts]) / 1e9),
        idle=float(is_low.mean()),
        unexplained=unexplained,
        began_ns=int(times[0]),
    )


def _is_anothers(other_pids: NDArray[np.int64], reasons: NDArray[np.int64]) -> bool:
    """Whether other processes or a throttle can explain the swings (look-alike N21)."""
    throttled = (np.where(reasons > 0, reasons, 0) & BAD_BITS) != 0
    return bool(((other_pids > 0) | throttled).mean() >= CALM_RATIO)


def _in_steps(pace: Pace, times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which readings are of a step, shape (times,): its batch was there, and the next not asked for.

    Evaluation within a step is none of it, nor is what the device lacked, which still shows in the readings of the
    second after it.
    """
    delivered_ns = pace.request_ns + (np.nan_to_num(pace.loop_wait_s) * 1e9).astype(np.int64)
    work_s = np.nan_to_num(pace.step_s - np.nan_to_num(pace.hidden_s))
    quiet = np.nan_to_num(pace.aside_s) == 0
    lag_ns = np.where(np.nan_to_num(pace.wait_s) < SHORT_WAIT_S, 0, int(READING_S * 1e9))
    ended_ns = delivered_ns + (work_s * 1e9).astype(np.int64)
    at = np.searchsorted(delivered_ns, times, side="right") - 1
    of = np.maximum(at, 0)
    within = (times >= (delivered_ns + lag_ns)[of]) & (times < ended_ns[of])
    result: NDArray[np.bool_] = (at >= 0) & within & quiet[of]
    return result


def _finding(swing: Swing, ranks: int, world: int) -> Finding:
    rank, pace = swing.rank, swing.pace
    step_s = pace.iteration_s
    idle_s = swing.unexplained * step_s
    parts_s = _parts_s(swing)
    phase = next((name for name in PHASES if parts_s.get(name, 0.0) >= HOLDS * idle_s), None)
    where = _line(rank)
    what = PHASES[phase] if phase else "something in the step"
    who = f"The GPU of rank {rank.rank}" if world > 1 else "The GPU"
    severity: Severity = "warning" if phase is not None else "info"
    return Finding(
        key=f"{CODE}:rank{rank.rank}",
        code=CODE,
        scenario="S26",
        severity=severity,
        confidence=0.7 if phase is not None else 0.5,
        began_ns=swing.began_ns,
        title=f"{who} swings between {percent(swing.low)} and {percent(swing.high)} every {duration(swing.period_s)}, and not for"
        f" want of data: in {percent(swing.unexplained)} of the time it has nothing to do within a step.",
        cause=f"Each batch was there, and the GPU waited for {what}"
        + (f": {duration(parts_s[phase])} of the {duration(step_s)} of an iteration" if phase else "")
        + (f" ({where})" if where else "")
        + ". The loader is not the cause.",
        advice=_advice(phase),
        evidence=known_evidence(
            ("GPU idle within steps", swing.unexplained, "ratio"),
            ("GPU idle in all", swing.idle, "ratio"),
            ("period", swing.period_s, "s"),
            ("data wait", pace.share, "ratio"),
            ("iteration", step_s, "s"),
            *((f"{name}, per step", value, "s") for name, value in parts_s.items()),
            ("ranks whose GPU swings", ranks if world > 1 else None, "count"),
        ),
        rank=rank.rank,
        host=rank.host,
        lost_s=swing.unexplained * pace.total_s,
        gain_ceiling_ratio=swing.unexplained,
    )


def _parts_s(swing: Swing) -> dict[str, float]:
    """Return the mean seconds of each phase per step, and what none of them covers as "other"."""
    steps = swing.rank.table("steps")
    mine = (steps["loader"] == swing.pace.loader.loader) & (steps["request_ns"] >= swing.began_ns)
    names = ("h2d", "forward", "backward", "optimizer")
    columns = {name: seconds(steps[f"{name}_ns"][mine]) for name in names}
    found = {name: mean(values) for name, values in columns.items() if np.isfinite(values).any()}
    step_s = mean(seconds(steps["step_ns"][mine]))
    if math.isfinite(step_s):
        found["other"] = max(0.0, step_s - sum(found.values()))
    return found


def _line(rank: RankWindow) -> str:
    """Return the user's line in the newest stack of the training process; "" where none was taken."""
    dumps = [dump for dump in rank.stacks if dump.worker == -1 and dump.text]
    where = user_frame(main_frames(max(dumps, key=lambda dump: dump.taken_ns))) if dumps else None
    return str(where) if where else ""


def _advice(phase: str | None) -> str:
    if phase == "optimizer":
        return "Use a fused optimizer (fused=True), and keep its state and the gradients on the GPU."
    if phase in ("forward", "backward"):
        return (
            "Find what computes on the CPU in the model (torch.profiler shows the gaps): copies back with .item() or .cpu(),"
            " Python loops over tensors, operators without a GPU kernel."
        )
    return (
        "Do it less often or on another thread: log every so many steps, keep losses and metrics on the GPU until then, and"
        " avoid .item(), .cpu() and print(loss) in each step. loaderwatch.phase(name) around a part shows what it takes."
    )
