"""An optimizer whose step takes far longer than before, while the model does not: S26, code ``slow-step``.

The cost of an optimizer's step depends on its parameters, not on the batch. On a CPU it multiplies when its
averages have faded into numbers so near to zero that the processor computes them slowly (denormals). This
happens to rows of an embedding that no longer get a gradient. Parameters that are added on purpose, for
example by unfreezing a backbone, make the backward pass longer as well, and other programs slow down both. In
these cases nothing is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.facts import LONGER_STEP, StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.loader_history import Course
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import code_line, in_optimizer, main_frames, user_frame, usual_stack
from loaderwatch.detect.measures.statistics import FEW_FOR_DRIFT, known, median
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step.step_finding import if_it_costs_much, step_finding
from loaderwatch.detect.window import RankWindow

SLOWED_FACTOR: Final = threshold(
    2.0, "factor", "chosen: times its quickest slice; with denormals, a step took three times as long"
)
SLOWED_SLICES: Final = threshold(
    6, "slices", "chosen: the newest slices; all must be slow, so that a short disturbance does not count"
)
QUICK_FACTOR: Final = threshold(
    1.3, "factor", "chosen: times its quickest slice; up to there a slice counts as quick"
)
MODEL_GREW_RATIO: Final = threshold(
    0.2, "ratio", "chosen: of the added time, in the model's pass; an unfrozen backbone adds more there"
)
OVER_MODEL_FACTOR: Final = threshold(
    1.5, "factor", "chosen: the optimizer's slowdown over the model's; other programs slow down both alike"
)


@dataclass(frozen=True)
class SlowOptimizer:
    """What a step of the optimizer took when it was quick and takes now, in seconds."""

    rank: RankWindow
    quick_s: float
    last_s: float
    step_s: float  # a whole step now
    since_s: float  # how long ago it was last quick
    share: float  # the added time's share of the time now, 0 to 1

    @property
    def dump(self) -> StackDump | None:
        """A stack that was taken in the optimizer, if there is one."""
        taken = self.rank.passing_stacks.get(LONGER_STEP, [])
        return usual_stack([dump for dump in taken if in_optimizer(main_frames(dump))])


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding: that of the rank that loses most."""
    slowed = [
        slow
        for rank in run.live_ranks
        if not rank.process.cuda
        for number, course in rank.rows.courses.items()
        if _is_slow(course)
        for pace in rank.paces
        if pace.loader.loader == number and pace.clock == "loop"
        if (slow := _measured(rank.rows, pace, course)).share >= run.limits.input_warning_ratio
    ]
    worst = max(slowed, key=lambda slow: slow.share, default=None)
    return [] if worst is None else [_finding(worst, run.limits)]


def _quickest_s(course: Course) -> float:
    """Return the second shortest time of a course's slices, so that a single odd slice does not count."""
    return float(np.partition(known(course.optimizer_s), 1)[1])


def _is_slow(course: Course) -> bool:
    """Whether the optimizer, but not the model, has slowed down. Cheap, because most ranks are well."""
    took_s = course.optimizer_s
    if known(took_s).size < FEW_FOR_DRIFT:
        return False
    quickest_s = _quickest_s(course)
    if not 0 < quickest_s <= np.min(took_s[-SLOWED_SLICES:]) / SLOWED_FACTOR:
        return False
    quick = took_s <= QUICK_FACTOR * quickest_s
    quick_s, last_s = median(took_s[quick]), median(took_s[-SLOWED_SLICES:])
    before_s, now_s = median(course.model_s[quick]), median(course.model_s[-SLOWED_SLICES:])
    alone = now_s - before_s <= MODEL_GREW_RATIO * (last_s - quick_s)
    return alone and last_s * before_s >= OVER_MODEL_FACTOR * now_s * quick_s


def _measured(rank: RankWindow, pace: Pace, course: Course) -> SlowOptimizer:
    quick = course.optimizer_s <= QUICK_FACTOR * _quickest_s(course)
    quick_s, last_s = median(course.optimizer_s[quick]), median(course.optimizer_s[-SLOWED_SLICES:])
    step_s = median(course.step_s[-SLOWED_SLICES:])
    return SlowOptimizer(
        rank,
        quick_s,
        last_s,
        step_s,
        since_s=(rank.made_ns - int(course.t_ns[quick][-1])) / 1e9,
        share=pace.in_pass_ratio * (last_s - quick_s) / (step_s + pace.lost_s / max(1, pace.wait_s.size)),
    )


def _finding(slow: SlowOptimizer, limits: Limits) -> Finding:
    rank, dump = slow.rank, slow.dump
    return step_finding(
        "optimizer-slowed-down",
        "S26",
        rank,
        severity=if_it_costs_much(slow.share, limits),
        confidence=0.8,
        began_ns=rank.made_ns - int(slow.since_s * 1e9),
        share=slow.share,
        lost_s=slow.share * slow.since_s,
        params={
            "lost_ratio": slow.share,
            "line": code_line(user_frame(main_frames(dump))),
            "quick_s": slow.quick_s,
            "since_s": slow.since_s,
            "optimizer_s": slow.last_s,
            "step_s": slow.step_s,
        },
        evidence=known_evidence(
            ("step-of-the-optimizer", slow.last_s, "s"),
            ("step-of-the-optimizer-before", slow.quick_s, "s"),
            ("step", slow.step_s, "s"),
            ("seen-for", slow.since_s, "s"),
        ),
        dump=dump,
    )
