"""Steps in which the script's own code or its model takes longer and longer, code ``slow-step``: S26.

The script's code is the part of a step that is neither copy nor model nor optimizer. A metric over everything
seen so far, a log that is rewritten at each step, or a list that is searched costs nothing at first, and most
of the time an hour later. A model grows by hooks that are registered repeatedly, a bank that it keeps, or a
graph that reaches back into earlier steps. The model's part counts only if batches keep their size, so longer
sequences or larger batches are no growth, and if the rest of the step does not slow down equally. Without a
watched model, the same applies to the whole step, compared with its optimizer. If an accelerator works
through the step while the loop continues, nothing is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import numpy as np

from loaderwatch.core.facts import LONGER_STEP, SCRIPT_WORK, StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.loader_history import Course
from loaderwatch.detect.measures.history_slices import blocks, ends, parts
from loaderwatch.detect.measures.machine import asleep_ratio
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import beside_model, in_model, main_frames, user_frame, usual_stack
from loaderwatch.detect.measures.statistics import FEW_FOR_DRIFT, STEADY_RISE, Floats, rising_fit, trend
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step.step_finding import if_it_costs_much, step_finding
from loaderwatch.detect.window import RankWindow

GROWN_STEP_FACTOR: Final = threshold(
    2.0, "factor", "chosen: the last value of a part of a step over its first"
)
HALF_RISE_FACTOR: Final = threshold(
    1.05, "factor", "within each half; equal growth per step (square root of time) gives 1.17 in the second"
)
SLEEP_LOOK_BACK_S: Final = threshold(
    30.0, "s", "chosen: looks come once a second, so 30 of them show how often the loop sleeps"
)
SLEEPING_LOOP_RATIO: Final = threshold(
    0.2, "ratio", "chosen: of the looks at the loop; sleep is no work, and its reason may well grow"
)
KEPT_GROWTH_RATIO: Final = threshold(
    0.8, "ratio", "chosen: of what a part reached; growth flattens: a script at 1/7 of its speed was missed"
)
SAME_SIZE_FACTOR: Final = threshold(
    1.1, "factor", "chosen: the largest median size of batches over the smallest; above it the batches grow"
)
OF_REST_FACTOR: Final = threshold(
    1.25,
    "factor",
    "a busy host slows step and rest alike within a tenth; a rest of 0.2 ms doubled as the step grew by 2.8",
)
STAGE_JUMPS: Final = threshold(4, "jumps", "chosen: a model that is enlarged in stages rises in so few jumps")
STAGES_RATIO: Final = threshold(
    0.6, "ratio", "chosen: of a rise; if the largest jumps hold more, it is no steady growth"
)


Part: TypeAlias = Literal["script", "model", "step"]
"""What has grown: the script's part, the forward and backward pass, or a step without known parts."""
RULES: Final[Mapping[Part, tuple[str, str, str]]] = {
    "script": ("script-work-grows", "own-work-of-a-step", "own-work-of-a-step-before"),
    "model": ("model-pass-grows", "pass-of-the-model", "pass-of-the-model-before"),
    "step": ("steps-grow", "step", "step-before"),
}
"""For each part: the rule's id, and the names of the evidence for its time now and at first."""


@dataclass(frozen=True)
class GrownStep:
    """What a part of a step took at first and takes now, in seconds."""

    pace: Pace
    part: Part
    first_s: float
    last_s: float
    step_s: float  # a whole step now
    span_s: float
    lost_s: float

    @property
    def share(self) -> float:
        """Return the share of the time now, 0 to 1, that was added to the part's first duration."""
        iteration_s = self.step_s + self.pace.lost_s / max(1, self.pace.wait_s.size)
        return self.pace.in_pass_ratio * (self.last_s - self.first_s) / iteration_s


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding: that of the rank that loses most."""
    grown_steps = [
        grown
        for rank in run.live_ranks
        if not rank.process.cuda and rank.rows.courses
        for pace in rank.paces
        if (grown := _grown(rank.rows, pace)) is not None and grown.share >= run.limits.input_warning_ratio
    ]
    worst = max(grown_steps, key=lambda grown: grown.share, default=None)
    return [] if worst is None else [_finding(worst, run.limits)]


def _grown(rank: RankWindow, pace: Pace) -> GrownStep | None:
    course = rank.courses.get(pace.loader.loader)
    if course is None or pace.clock != "loop" or asleep_ratio(rank, SLEEP_LOOK_BACK_S) >= SLEEPING_LOOP_RATIO:
        return None
    return next((grown for slices in parts(course) if (grown := _of(pace, slices)) is not None), None)


def _of(pace: Pace, slices: Course) -> GrownStep | None:
    candidates = (_grown_part(pace, slices, part) for part in ("script", "model", "step"))
    return next((grown for grown in candidates if grown is not None), None)


def _grown_part(pace: Pace, slices: Course, part: Part) -> GrownStep | None:
    if part == "step":
        # The whole step is judged only if none of its parts except the optimizer is known.
        known = np.isfinite(slices.script_s).any() or np.isfinite(slices.model_s).any()
        part_s, rest_s = slices.step_s, slices.optimizer_s
        if known or not np.isfinite(rest_s).any():
            return None
    else:
        part_s = slices.model_s if part == "model" else slices.script_s
        rest_s = slices.step_s - part_s
    first_s, last_s = ends(part_s)
    if not 0 < first_s <= last_s / GROWN_STEP_FACTOR:
        return None
    # Other programs slow down all parts equally, so only the part relative to the rest shows real growth.
    of_rest = np.divide(part_s, rest_s, out=np.full(part_s.size, np.nan), where=rest_s > 0)
    if part != "script":
        first, last = ends(of_rest)
        if not (last >= OF_REST_FACTOR * first and _same_size(slices)):
            return None
    if not (_rose(part_s) or _rose(of_rest)):
        return None
    step_s = slices.step_s
    over = np.divide(np.maximum(0.0, part_s - first_s), step_s, out=np.zeros(step_s.size), where=step_s > 0)
    return GrownStep(
        pace=pace,
        part=part,
        first_s=first_s,
        last_s=last_s,
        step_s=ends(slices.step_s)[1],
        span_s=float(slices.t_ns[-1] - slices.t_ns[0]) / 1e9,
        lost_s=float(np.nansum(over)) * slices.slice_ns / 1e9,
    )


def _rose(part: Floats) -> bool:
    """Whether the part grew steadily until now, or until earlier and kept its size as steps come rarely."""
    sizes = (part.size, 3 * part.size // 4, part.size // 2)
    return any(
        _rises(part[:size]) and ends(part)[1] >= KEPT_GROWTH_RATIO * ends(part[:size])[1]
        for size in sizes
        if size >= FEW_FOR_DRIFT
    )


def _rises(part: Floats) -> bool:
    """Whether the part grew steadily nearly all the time, and not at a few moments."""
    values = blocks(part)
    pairs = values.reshape(-1, 2).mean(axis=1)
    rising = HALF_RISE_FACTOR * pairs[0] <= pairs[1] and HALF_RISE_FACTOR * pairs[2] <= pairs[3]
    if not (0 < values[0] <= values[-1] / GROWN_STEP_FACTOR and rising and trend(values) >= STEADY_RISE):
        return False
    jumps = np.sort(np.diff(rising_fit(part)))
    return bool(jumps[-STAGE_JUMPS:].sum() < STAGES_RATIO * jumps.sum())


def _same_size(slices: Course) -> bool:
    """Whether the batches are known to have kept their size."""
    sizes = blocks(slices.batch_bytes)
    return bool(sizes.min() > 0 and sizes.max() <= SAME_SIZE_FACTOR * sizes.min())


def _finding(grown: GrownStep, limits: Limits) -> Finding:
    rank = grown.pace.rank
    dump = _stack(grown)
    frame = user_frame(main_frames(dump))
    rule, now, before = RULES[grown.part]
    return step_finding(
        rule,
        "S26",
        rank,
        severity=if_it_costs_much(grown.share, limits),
        confidence=0.85,
        began_ns=rank.made_ns - int(grown.span_s * 1e9),
        share=grown.share,
        lost_s=grown.lost_s,
        params={
            "share_ratio": grown.share,
            "first_s": grown.first_s,
            "last_s": grown.last_s,
            "span_s": grown.span_s,
            "step_s": grown.step_s,
            "at": None if frame is None else frame.text,
        },
        evidence=known_evidence(
            (now, grown.last_s, "s"),
            (before, grown.first_s, "s"),
            ("step", grown.step_s if grown.part != "step" else None, "s"),
            ("seen-for", grown.span_s, "s"),
        ),
        dump=dump,
    )


def _stack(grown: GrownStep) -> StackDump | None:
    stacks = grown.pace.rank.passing_stacks
    if grown.part == "step":
        return usual_stack(stacks.get(LONGER_STEP, []))
    if grown.part == "model":
        return usual_stack([dump for dump in stacks.get(LONGER_STEP, []) if in_model(main_frames(dump))])
    return usual_stack(beside_model(stacks.get(SCRIPT_WORK, [])))
