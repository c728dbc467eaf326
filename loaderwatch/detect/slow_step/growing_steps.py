"""Steps in which the script's own code takes longer and longer, code ``slow-step``: S26.

A metric over all that was seen so far, a log that is written anew with each step, a list that is searched: it costs nothing at
first, and most of the time an hour later. What counts is the part of a step that is neither copy nor model nor optimizer, so
that longer sequences or larger batches are no growth. Where the phases are not timed, or an accelerator works through the
step while the loop goes on, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.facts import SCRIPT_WORK
from loaderwatch.detect.course import Course
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.machine import asleep_ratio
from loaderwatch.detect.measures.pace import Pace, paces
from loaderwatch.detect.measures.slices import parts
from loaderwatch.detect.measures.stacks import beside_model, main_frames, user_frame, usual_stack
from loaderwatch.detect.measures.statistics import Floats, median, trend
from loaderwatch.detect.slow_step.pauses import CODE
from loaderwatch.detect.text import duration, percent
from loaderwatch.detect.window import RankWindow, RunWindow

GROWN_RATIO: Final = 2.0
"""Times its first value that the script's part of a step takes in the end, at least."""
HALF_RATIO: Final = 1.2
"""By so much it must rise in each half: a change at one moment is no growth."""
RISES: Final = 0.9
"""Rank correlation of the script's part with its place in time."""
LOOK_BACK_S: Final = 30.0
ASLEEP_RATIO: Final = 0.2
"""Of the looks at the loop: a pause that is slept through is no work, and what one is for may well grow."""
BLOCKS: Final = 8
"""Stretches of equal length, which are compared."""


@dataclass(frozen=True)
class GrownStep:
    """What the script's own part of a step took at first and takes now, in seconds."""

    pace: Pace
    first_s: float
    last_s: float
    step_s: float  # a whole step now
    span_s: float
    lost_s: float

    @property
    def share(self) -> float:
        """Return the share of the time now, 0 to 1, that has come on top of what it took at first."""
        return (self.last_s - self.first_s) / (self.step_s + self.pace.lost_s / max(1, self.pace.wait_s.size))


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """Return at most one finding, that of the rank that loses most by it."""
    found = [
        grown
        for rank in window.ranks.values()
        if rank.process.state == "live" and not rank.process.cuda and rank.courses
        for pace in paces(rank)
        if (grown := _grown(rank, pace)) is not None and grown.share >= limits.input_warning_ratio
    ]
    worst = max(found, key=lambda grown: grown.share, default=None)
    return [] if worst is None else [_finding(worst, limits)]


def _grown(rank: RankWindow, pace: Pace) -> GrownStep | None:
    course = rank.courses.get(pace.loader.loader)
    if course is None or pace.clock != "loop" or asleep_ratio(rank, LOOK_BACK_S) >= ASLEEP_RATIO:
        return None
    return next((grown for slices in parts(course) if (grown := _of(pace, slices)) is not None), None)


def _of(pace: Pace, slices: Course) -> GrownStep | None:
    script_s = _blocks(slices.script_s)
    # Other programs slow down the model and the script alike: beside them only the one in terms of the other tells.
    if not (_rises(script_s) or _rises(_blocks(slices.script_s / (slices.step_s - slices.script_s)))):
        return None
    first_s, last_s = float(script_s[0]), float(script_s[-1])
    if not 0 < first_s <= last_s / GROWN_RATIO:
        return None
    over = np.maximum(0.0, slices.script_s - first_s) / slices.step_s
    return GrownStep(
        pace=pace,
        first_s=first_s,
        last_s=last_s,
        step_s=float(_blocks(slices.step_s)[-1]),
        span_s=float(slices.t_ns[-1] - slices.t_ns[0]) / 1e9,
        lost_s=float(np.nansum(over)) * slices.slice_ns / 1e9,
    )


def _blocks(values: Floats) -> Floats:
    """Return the medians of ``BLOCKS`` stretches, oldest first: of single seconds a busy machine makes anything."""
    return np.array([median(part) for part in np.array_split(values, BLOCKS)])


def _rises(blocks: Floats) -> bool:
    (first, *_, before), (after, *_, last) = np.array_split(blocks, 2)
    in_both_halves = HALF_RATIO * first <= before and HALF_RATIO * after <= last
    return bool(0 < first <= last / GROWN_RATIO and in_both_halves) and trend(blocks) >= RISES


def _finding(found: GrownStep, limits: Limits) -> Finding:
    rank = found.pace.rank
    who = f"Rank {rank.rank}" if rank.process.world_size > 1 else "Training"
    dump = usual_stack(beside_model(rank.passing_stacks.get(SCRIPT_WORK, [])))
    frame = user_frame(main_frames(dump))
    return Finding(
        key=f"{CODE}:S26",
        code=CODE,
        scenario="S26",
        severity="warning" if found.share >= limits.input_critical_ratio else "info",
        confidence=0.85,
        began_ns=rank.made_ns - int(found.span_s * 1e9),
        title=f"{who} loses {percent(found.share)} of its time to work of the script's own that grows from step to step"
        f"{f', lately at {frame}' if frame else ''}: {duration(found.first_s)} of a step {duration(found.span_s)} ago,"
        f" {duration(found.last_s)} now; the data loader is not the cause.",
        cause=f"A step takes {duration(found.step_s)} now. The part of it that is neither the model nor the optimizer has risen"
        f" steadily, from {duration(found.first_s)} to {duration(found.last_s)}, while those have not.",
        advice="Look for what grows with each step: a metric over all batches so far, a list or a log that is walked or written anew."
        " Keep running sums, look at the newest part only, or do it once per epoch.",
        evidence=known_evidence(
            ("own work of a step", found.last_s, "s"),
            ("own work of a step before", found.first_s, "s"),
            ("step", found.step_s, "s"),
            ("seen for", found.span_s, "s"),
        ),
        rank=rank.rank,
        host=rank.host,
        pid=rank.process.pid,
        lost_s=found.lost_s,
        gain_ceiling_ratio=found.share,
        stacks=[] if dump is None else [dump],
    )
