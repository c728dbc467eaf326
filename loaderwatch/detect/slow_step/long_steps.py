"""The long steps of a loop: steps that take far longer than the usual one, and where the loop is in them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.facts import LONG_STEP, StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.measures.machine import run_delay_s
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import Frame, loop_over_loader, main_frames, user_frame
from loaderwatch.detect.measures.statistics import Floats, mean, median
from loaderwatch.detect.window import RankWindow

STEPS_LOOK_BACK_S: Final = threshold(
    60.0, "s", "chosen: the last minute has three pauses that come every 20 s"
)
PAUSE_FACTOR: Final = threshold(4.0, "factor", "chosen: times the usual step, to leave out common variation")
PAUSE_S: Final = threshold(0.1, "s", "chosen: a shorter step is no pause, however quick the usual step is")
FEW_LONG_STEPS: Final = threshold(3, "steps", "chosen: fewer long steps are no habit")
EARLY_STEPS: Final = threshold(
    3,
    "steps",
    "CUDA, lazy modules, first compilation and DDP's buckets make first steps long (look-alike N03)",
)
PAUSE_REMARK_RATIO: Final = threshold(
    0.03, "ratio", "chosen: of the time; a smaller loss is not worth a remark"
)
LEAST_RHYTHM_STEPS: Final = threshold(
    3, "steps", "chosen: with exceptions, the shortest rhythm; every second step may be long by chance"
)
FEW_IN_RHYTHM: Final = threshold(
    6, "steps", "chosen: with exceptions among them, fewer long steps form a rhythm by chance"
)
RHYTHM_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of the long steps; so many must come every n-th step, a few may be exceptions"
)


@dataclass(frozen=True)
class Pauses:
    """The long steps of one loader on one rank; arrays have one entry per long step, oldest first."""

    rank: RankWindow
    pace: Pace
    rows: NDArray[np.int64]  # indices of rows of the pace
    excess_s: Floats  # beyond the usual step
    usual_s: float
    collector_s: Floats  # the garbage collector's time in the whole step
    elapsed_s: float

    @property
    def lost_s(self) -> float:
        """Return the seconds by which all long steps together exceeded the usual step."""
        return float(self.excess_s.sum())

    @property
    def share(self) -> float:
        """Return the share (0 to 1) of the time looked at by which the long steps exceeded the usual step."""
        return min(1.0, self.lost_s / self.elapsed_s) if self.elapsed_s > 0 else 0.0

    def only(self, mask: NDArray[np.bool_]) -> Pauses:
        """Return only the long steps of a mask, shape (long steps,)."""
        return replace(
            self,
            rows=self.rows[mask],
            excess_s=self.excess_s[mask],
            collector_s=self.collector_s[mask],
        )

    @property
    def without_cpu(self) -> NDArray[np.bool_]:
        """Return which long steps may be long only because other programs used the CPUs.

        Steps that are long every n-th time are not among them: other programs do not count the steps.
        """
        began_ns, took_s = self.pace.request_ns[self.rows], self.pace.own_s[self.rows]
        delayed_s = np.array(
            [
                run_delay_s(self.rank, int(request_ns), float(seconds))
                for request_ns, seconds in zip(began_ns, took_s, strict=True)
            ]
        )
        explained: NDArray[np.bool_] = took_s - delayed_s < long_from_s(self.usual_s)
        return explained & (self.every is None)

    @property
    def every(self) -> int | None:
        """Return n if every n-th step of the loop or of each epoch is long; a few others may be long, too."""
        places = np.arange(self.pace.step.size)  # with gradient accumulation, a step has several rows
        steps = self.pace.step if bool((np.diff(self.pace.step) > 0).all()) else places
        for numbers in (steps[self.rows], self.pace.batch[self.rows]):
            gaps, counts = np.unique(np.diff(numbers), return_counts=True)
            if not gaps.size:
                continue
            every = int(gaps[counts.argmax()])
            if gaps.size == 1 and every > 1 and numbers.size >= FEW_LONG_STEPS:
                return every
            fit = (
                int(np.unique(numbers % every, return_counts=True)[1].max())
                if every >= LEAST_RHYTHM_STEPS
                else 0
            )
            if fit >= max(FEW_IN_RHYTHM, RHYTHM_RATIO * numbers.size):
                return every
        return None

    @property
    def dumps(self) -> list[StackDump]:
        """Return the training process's stacks in long steps, including one that is still open."""
        pace, rows = self.pace, self.rows
        began_ns = pace.request_ns[rows]
        took_s = np.nan_to_num(pace.loop_wait_s[rows]) + pace.own_s[rows]

        def in_long_step(dump: StackDump) -> bool:
            within = (began_ns <= dump.taken_ns) & (dump.taken_ns <= began_ns + took_s * 1e9)
            goes_on = dump.why == LONG_STEP and dump.taken_ns > pace.request_ns[-1]
            return goes_on or bool(within.any())

        return [dump for dump in self.rank.stacks if dump.worker == -1 and in_long_step(dump)]

    @property
    def asleep_ratio(self) -> float:
        """Return the share of looks in long steps with the process asleep on a timer; NaN without any."""
        processes, began_ns = self.rank.table("processes"), self.pace.request_ns[self.rows]
        ended_ns = began_ns + (np.nan_to_num(self.pace.own_s[self.rows]) * 1e9).astype(np.int64)
        t_ns = processes["t_ns"][:, np.newaxis]
        within = ((t_ns >= began_ns) & (t_ns <= ended_ns)).any(axis=1)
        return mean(processes["timer_wait"][within & (processes["pid"] == self.rank.process.pid)])

    @property
    def place(self) -> tuple[Frame | None, StackDump | None, bool]:
        """Return line and stack of the newest long step with a stack, and whether it reads another loader.

        Line and stack are None without one. The other loader is not attached: the waits of an attached loader
        are no part of the step.
        """
        for dump in reversed(self.dumps):
            frames = main_frames(dump)
            reads = loop_over_loader(frames)
            frame = reads or user_frame(frames)
            if frame is not None:
                return frame, dump, reads is not None
        return None, None, False


def long_from_s(usual_s: float) -> float:
    """Return the seconds above which a step is long if the usual one takes ``usual_s``."""
    return max(PAUSE_S, PAUSE_FACTOR * usual_s)


def find_pauses(rank: RankWindow, pace: Pace) -> Pauses | None:
    """Return the long steps of the last minute; None if there are none."""
    now = pace.since(rank.made_ns - int(STEPS_LOOK_BACK_S * 1e9))
    now = now.where((now.epoch > 0) | (now.batch >= EARLY_STEPS))
    # The GPU's clock counts: a pause that the GPU works through costs nothing. But it includes evaluation:
    # in such steps the loop's clock counts.
    by_gpu = (
        np.isfinite(now.gpu_step_s) & (np.nan_to_num(now.aside_s) == 0) & (np.nan_to_num(now.nested_s) == 0)
    )
    own_s = np.where(by_gpu, now.gpu_step_s, now.step_s) + now.beside_s
    usual_s = median(own_s)
    if own_s.size < 2 * FEW_LONG_STEPS or not math.isfinite(usual_s):
        return None
    rows = np.flatnonzero(own_s >= long_from_s(usual_s))
    collector_s = now.loop_collected_s
    # A collector that runs in most steps makes all of them long: none stands out, but the time is lost.
    elapsed_s = now.elapsed_s + float(now.beside_s.sum())
    steady = float(np.nansum(collector_s)) >= 0.5 * PAUSE_REMARK_RATIO * elapsed_s
    if steady and not rows.size:
        rows = np.flatnonzero(collector_s > 0)
        usual_s = median(own_s - collector_s)
    if not rows.size:
        return None
    return Pauses(rank, now, rows, own_s[rows] - usual_s, usual_s, collector_s[rows], elapsed_s)
