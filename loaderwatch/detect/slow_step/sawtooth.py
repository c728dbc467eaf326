"""A GPU that idles within its steps while data is there: S26, S50 and S51, code ``gpu-sawtooth``.

The rule for a swing is that of SageMaker Debugger's LowGPUUtilization: 95th percentile of the utilization
from 70 % and 5th below 10 %. NVML shows quicker swings only as a mean in between: they count if the device's
own clock is known. Utilization does not say what causes the idle time. So idle time without a batch, in an
evaluation, at an epoch's boundary or without any step is taken out first: other detectors cover it. The rest
is within steps; ``sawtooth_causes`` says where, and each cause is a finding.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Param, Severity, Text
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import GPU_IDLE, SWING_HIGH_RATIO, SWING_LOW_RATIO
from loaderwatch.core.records import BAD_BITS
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import GPU_SAWTOOTH as CODE
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import mean, median, quantile, total
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step.sawtooth_causes import Cause, Seen, Steps, Swing, causes
from loaderwatch.detect.window import RankWindow, first_at

SWING_LOOK_BACK_S: Final = threshold(30.0, "s", "chosen: five swings of up to six seconds fit into it")
FEW_SWING_READINGS: Final = threshold(150, "readings", "half of the readings in 30 s, at ten a second")
MOST_IDLE_RANKS: Final = threshold(
    16,
    "ranks",
    "measured: a close look took 0.33 ms a rank; at 1000 starving GPUs a second's turn 26 ms instead of 350",
)
FEW_SWINGS: Final = threshold(5, "swings", "chosen: fewer swings are no habit")
DISTURBED_RATIO: Final = threshold(
    0.05, "ratio", "chosen: of the readings; if so many show another process or a throttle, that is to blame"
)
SHORT_LOST_WAIT_S: Final = threshold(
    0.05, "s", "chosen: readings come each 0.1 s and cannot show a shorter lost wait"
)
READING_REACH_S: Final = threshold(
    1.0, "s", "nvml.h: a reading is a mean over the sixth of a second to a second before it"
)
SWING_BLOCK_S: Final = threshold(
    5.0, "s", "chosen: the length of the pieces of time that find a swing's begin"
)
FEW_BLOCK_READINGS: Final = threshold(
    10, "readings", "chosen: one second of readings; with fewer, a piece of time says nothing"
)
GOES_ON_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of the present cost; a piece of time that costs less does not belong to the swing"
)


def detect(run: RunEvidence) -> list[Finding]:
    """Return the causes for which the GPU idles on the rank that loses most by it.

    Nothing is returned for ranks that wait for each other: other detectors report that.
    """
    together, limits = run.coupling, run.limits
    if together is not None and together.state in ("waiting", "turns"):
        return []
    idle = {rank.rank: _idle_with_data(rank) for rank in run.live_ranks}
    loud = sorted(
        (rank for rank, share in idle.items() if share >= limits.input_warning_ratio),
        key=lambda rank: -idle[rank],
    )
    looked_at = [find_swing(run.ranks[rank]) for rank in loud[:MOST_IDLE_RANKS]]
    swings = [swing for swing in looked_at if swing is not None]
    if not swings:
        return []
    worst = max(swings, key=lambda swing: swing.unexplained)
    ranks = len(swings) + len(loud[MOST_IDLE_RANKS:])
    known = causes(worst, limits.input_warning_ratio)
    return [_finding(worst, cause, ranks, run.world_size, limits) for cause in known or (None,)]


def _recent(rank: RankWindow) -> tuple[Columns, slice]:
    """Return the readings of a rank's GPU, and the slice of the recent ones."""
    rows = rank.table("gpus")
    return rows, slice(first_at(rows["t_ns"], rank.made_ns - int(SWING_LOOK_BACK_S * 1e9)), None)


def _idle_with_data(rank: RankEvidence) -> float:
    """Return the share of the time, 0 to 1, that a GPU idles beyond the data wait.

    This look is rough but cheap, because most of a thousand GPUs are well, or starve all together.
    """
    rows, late = _recent(rank.rows)
    used = rows["utilization_ratio"][late]
    if used.size < FEW_SWING_READINGS:
        return 0.0
    idle = 1.0 - float(np.nansum(used)) / used.size
    return idle - rank.wait_ratio if idle >= rank.limits.input_warning_ratio else 0.0


def find_swing(rank: RankEvidence) -> Swing | None:
    """Return how a rank's GPU idles within its steps; None if it does not, or other things explain it."""
    rows, late = _recent(rank.rows)
    pace = rank.newest_pace
    if pace is None:
        return None
    used, times = rows["utilization_ratio"], rows["t_ns"]
    known = np.isfinite(used) & (times >= pace.request_ns[0]) & (times < pace.ended_ns)
    used, times = used[known], times[known]
    # Each reading is a mean, so the mean of the readings is the true share wherever they fall in a swing.
    lost = (1.0 - used) * _in_steps(pace, times)
    now_from = int(np.searchsorted(times, rows["t_ns"][late][:1].sum()))
    every_time, every_lost = times, lost
    used, times, lost = used[now_from:], times[now_from:], lost[now_from:]
    if used.size < FEW_SWING_READINGS:
        return None
    high, low = quantile(used, 0.95), quantile(used, 0.05)
    swings = high >= SWING_HIGH_RATIO and low < SWING_LOW_RATIO
    if _is_anothers(rows["other_pids"][late], rows["throttle_reasons"][late]):
        return None
    if not swings and pace.clock != "device":
        return None
    is_low = used < (high + low) / 2
    starts = np.flatnonzero(is_low[1:] & ~is_low[:-1]) + 1
    if swings and starts.size < FEW_SWINGS:
        return None
    now = pace.since(int(times[0]))
    short = now.wait_s < SHORT_LOST_WAIT_S
    starved = total(now.wait_s[short]) / max(now.total_s, 1e-9)
    unexplained = float(lost.mean()) - starved
    if unexplained < rank.limits.input_warning_ratio:
        return None
    period_s = median(np.diff(times[starts]) / 1e9) if swings else math.nan
    began_ns = _began_ns(every_time, every_lost, unexplained, period_s)
    steps = Steps(now)
    return Swing(
        rank=rank.rows,
        pace=now,
        high=high,
        low=low,
        period_s=period_s,
        idle=1.0 - float(used.mean()),
        unexplained=unexplained,
        began_ns=began_ns,
        ended_ns=int(times[-1]),
        loop_s=steps.loop_s,
        device_s=steps.device_s,
        slack_s=median(now.slack_s),
        thread_cpu=_thread_cpu(rank.rows, int(times[0])),
        seen=Steps(pace).seen(
            rank.passing_stacks.get(GPU_IDLE, []),
            began_ns,
            began_ns < int(every_time[0]) + SWING_BLOCK_S * 1e9,
        ),
    )


def _began_ns(times: NDArray[np.int64], lost: NDArray[np.float64], now: float, period_s: float) -> int:
    """Return when a swing that goes on began, ns UTC, as far back as readings reach.

    Args:
        times: of the readings, shape (readings,).
        lost: per reading, the share (0 to 1) of idle time within a step, shape (readings,).
        now: the recent value of that share.
        period_s: of the swing; NaN if not known.
    """
    block_ns = int(max(SWING_BLOCK_S, 2.0 * np.nan_to_num(period_s)) * 1e9)
    block = (int(times[-1]) - times) // block_ns  # 0 is the newest
    count = np.bincount(block)
    mean_of = np.bincount(block, weights=lost) / np.maximum(count, 1)
    goes_on = (mean_of >= GOES_ON_RATIO * now) & (count >= FEW_BLOCK_READINGS)
    newest = int(np.argmax(goes_on))  # a swing may pause for a moment
    pauses = np.flatnonzero(~goes_on[newest:])
    oldest = newest + int(pauses[0]) - 1 if pauses.size else goes_on.size - 1
    inside = np.flatnonzero((block == max(oldest, newest)) & (lost > 0.5))
    return int(times[inside[0]]) if inside.size else int(times[block <= max(oldest, newest)][0])


def _is_anothers(other_pids: NDArray[np.int64], reasons: NDArray[np.int64]) -> bool:
    """Whether other processes or a throttle can explain the swings (look-alike N21)."""
    throttled = (np.where(reasons > 0, reasons, 0) & BAD_BITS) != 0
    return bool(((other_pids > 0) | throttled).mean() >= DISTURBED_RATIO)


def _in_steps(pace: Pace, times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which readings are in an iteration whose batch the device has, shape (times,).

    Evaluation within a step does not count either. The lack of a batch in a long wait still shows in the
    readings of the second after it. A wait that the device's work hides does not lack a batch, but readings
    in it may still show an earlier lack.
    """
    delivered_ns = pace.request_ns + (np.nan_to_num(pace.loop_wait_s) * 1e9).astype(np.int64)
    ended_ns = delivered_ns + (pace.own_s * 1e9).astype(np.int64)
    lost_ns = (np.nan_to_num(pace.wait_s) * 1e9).astype(np.int64)
    long = lost_ns >= int(SHORT_LOST_WAIT_S * 1e9)
    shown_until_ns = np.where(long, delivered_ns + int(READING_REACH_S * 1e9), 0)
    over_ns = np.maximum.accumulate(shown_until_ns)
    at = np.searchsorted(pace.request_ns, times, side="right") - 1
    row = np.maximum(at, 0)
    before_ns = np.where(row > 0, over_ns[np.maximum(row - 1, 0)], 0)  # of the waits before this row's
    lacked = (times >= (delivered_ns - lost_ns)[row]) & (times < over_ns[row]) & long[row]
    quiet = np.nan_to_num(pace.aside_s) == 0
    result: NDArray[np.bool_] = (
        (at >= 0) & (times < ended_ns[row]) & (times >= before_ns) & ~lacked & quiet[row]
    )
    return result


def _finding(swing: Swing, cause: Cause | None, ranks: int, world: int, limits: Limits) -> Finding:
    """Return the finding of one cause, or of idle time without a known cause."""
    rank, pace = swing.rank, swing.pace
    explanation = cause.explanation if cause is not None else None
    share = cause.share if cause is not None else swing.unexplained
    severity: Severity = "info"
    if explanation is not None and share >= limits.input_warning_ratio:
        severity = "critical" if share >= limits.input_critical_ratio else "warning"
    idles: dict[str, Param] = {
        "rank": rank.rank if world > 1 else None,
        "period_s": swing.period_s if math.isfinite(swing.period_s) else None,
        "low_ratio": swing.low,
        "high_ratio": swing.high,
        "idle_ratio": swing.idle,
        "share_ratio": share,
        "elapsed_s": min(SWING_LOOK_BACK_S, pace.total_s),
        "because": explanation.said("because") if explanation is not None else None,
    }
    seen = swing.seen.get(cause.place, Seen()) if cause is not None else Seen()
    return Finding(
        # Without the rank: which of several equal ranks is the worst changes, and the alert must stay one.
        key=f"{CODE}:{cause.place}" if cause is not None else CODE,
        aspect=cause.place if cause is not None else "",
        code=CODE,
        scenario=explanation.scenario if explanation is not None else "S26",
        severity=severity,
        confidence=explanation.confidence if explanation is not None else 0.5,
        began_ns=swing.began_ns,
        rule=explanation.rule if explanation is not None else "gpu-idle-unexplained",
        params=explanation.params if explanation is not None else {},
        frame=Text("gpu-idles-in-steps", idles),
        evidence=known_evidence(
            ("gpu-idle-for-this", share if cause is not None else None, "ratio"),
            ("gpu-idle-within-steps", swing.unexplained, "ratio"),
            ("gpu-idle-in-all", swing.idle, "ratio"),
            ("period", swing.period_s, "s"),
            ("data-wait", pace.share, "ratio"),
            ("iteration", pace.iteration_s, "s"),
            *(
                (Text("evidence-part-per-step", {"part": part}), value, "s")
                for part, value in swing.loop_s.items()
            ),
            *(
                (Text("evidence-part-on-gpu-per-step", {"part": part}), value, "s")
                for part, value in swing.device_s.items()
            ),
            ("gpu-work-left-when-a-batch-is-asked-for", swing.slack_s, "s"),
            ("cpu-of-the-training-thread", swing.thread_cpu, "ratio"),
            ("ranks-whose-gpu-idles-so", ranks if world > 1 else None, "count"),
        ),
        rank=rank.rank,
        host=rank.host,
        lost_s=share * (swing.ended_ns - swing.began_ns) / 1e9,
        gain_ceiling_ratio=share,
        stacks=[seen.dump] if seen.dump is not None else [],
    )


def _thread_cpu(rank: RankWindow, since_ns: int) -> float:
    """Return the share of the time, 0 to 1, in which the training thread computes or waits for a CPU."""
    rows = rank.table("processes")
    mine = (rows["worker"] == -1) & (rows["t_ns"] >= since_ns)
    return mean(rows["main_cpu_ratio"][mine] + np.nan_to_num(rows["run_delay_ratio"][mine]))
