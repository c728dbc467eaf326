"""The script's own work that takes much of every step while no data is awaited: S26, code ``slow-step``.

Examples are a metric in pure Python, tokenizing, or lists made of tensors. Each step is as long as the one
before, so none stands out, and nothing grows. The signs are the time of a step outside copy, model and
optimizer, and stacks taken in that time. A loss that is computed outside of the model is part of it as well:
if most stacks end in PyTorch's own code or in a sleep, there is only a remark.

The script may also make its next batch there, for example between forward and backward (nanoGPT). If most
stacks are at statements that feed the model, the model lacks data. Without a loader that is S01, code
``input-bound``, as between two steps.

On a GPU the loop may be ahead of such work; ``sawtooth`` finds what it costs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from loaderwatch.core.facts import BETWEEN_STEPS, SCRIPT_WORK, StackDump
from loaderwatch.core.records import ProfilePart
from loaderwatch.core.system import TIMER_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.codes import INPUT_BOUND
from loaderwatch.detect.codes import SLOW_STEP as CODE
from loaderwatch.detect.evidence import RankEvidence, RunEvidence
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.measures.machine import asleep_ratio
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import (
    Frame,
    code_line,
    collective,
    computes_tensors,
    in_model,
    main_frames,
    user_frame,
    usual_stack,
    works_aside,
)
from loaderwatch.detect.measures.statistics import mean, median
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step.long_steps import STEPS_LOOK_BACK_S
from loaderwatch.detect.slow_step.step_finding import by_share, step_finding
from loaderwatch.detect.window import RankWindow

LEAST_SCRIPT_WORK_S: Final = threshold(
    10.0, "s", "chosen: of steps; fewer seconds do not show the usual step"
)
FEW_PHASED_STEPS: Final = threshold(
    8, "steps", "chosen: of the last minute with known phases; a loop whose steps take 7 s has so many"
)
FEW_SCRIPT_STACKS: Final = threshold(2, "stacks", "chosen: a single stack may show something rare")
SCRIPT_STACKS_RATIO: Final = threshold(
    0.6, "ratio", "chosen: of the stacks taken outside the model; so many must show the script's work"
)


Kind: TypeAlias = Literal["data", "work", "other"]
"""What most stacks show: statements that feed the model, other own work, or PyTorch's code and sleeps."""
_RULES: Final[Mapping[Kind, str]] = {
    "data": "data-made-in-loop",
    "work": "script-work-in-steps",
    "other": "code-beside-model",
}


@dataclass(frozen=True)
class ScriptWork:
    """How long a loop works for the script in each step, in seconds."""

    pace: Pace
    kind: Kind
    share: float  # of all time, 0 to 1
    seen_part: float  # share of the stacks in that part that show its work
    script_s: float  # of the usual step
    step_s: float
    elapsed_s: float
    dumps: list[StackDump]  # stacks of that kind, taken in that part of a step, oldest first


def detect(run: RunEvidence) -> list[Finding]:
    """Return at most one finding on work that makes no data.

    It is that of the rank whose script works most, because the other ranks wait for it.
    """
    return _worst(run, "work") or _worst(run, "other")


def detect_data(run: RunEvidence) -> list[Finding]:
    """Return at most one finding on data made within steps; it comes before a wait between two steps."""
    return _worst(run, "data")


def _worst(run: RunEvidence, kind: Kind) -> list[Finding]:
    """Return the finding of the rank with most work of this kind, weighted by the stacks that show it."""
    works = [
        work
        for rank in run.live_ranks
        if not rank.process.cuda and rank.passing_stacks.get(SCRIPT_WORK)
        for pace in rank.paces
        if (work := _work(rank.rows, pace, run.limits)) is not None and work.kind == kind
    ]
    if not works:
        return []
    worst = max(works, key=lambda work: work.share * work.seen_part)
    return [_finding(worst, _line(worst, run.ranks[worst.pace.rank.rank]), run.limits)]


def _line(work: ScriptWork, rank: RankEvidence) -> Frame | None:
    """Return the line of the work: the one with most samples, or that of a stack if there are few samples.

    Samples do not tell which statements feed the model. So data is made in the function of that stack.
    """
    usual = user_frame(main_frames(usual_stack(work.dumps)))

    def shows(frames: Sequence[Frame]) -> bool:
        frame = user_frame(frames)
        same = work.kind != "data" or (frame and usual and frame.function == usual.function)
        return bool(same) and works_aside(frames)

    return rank.profile(ProfilePart.STEP).usual_line(shows) or usual


def _work(rank: RankWindow, pace: Pace, limits: Limits) -> ScriptWork | None:
    """Return how a rank's script works; None if that is little, or timed model and stacks do not show it.

    Data made without a loader counts from the share on that is a warning of data wait. Other work counts from
    the critical share on, because every loop has some work of its own.
    """
    now = pace.since(rank.made_ns - int(STEPS_LOOK_BACK_S * 1e9))
    script_s = now.step_s - now.phases_s
    known = np.isfinite(script_s)
    if (
        pace.clock != "loop"
        or int(known.sum()) < max(FEW_PHASED_STEPS, 0.5 * script_s.size)
        or now.total_s < LEAST_SCRIPT_WORK_S
    ):
        return None
    usual_s = median(script_s[known])
    share = usual_s * script_s.size / now.elapsed_s
    own = [dump for dump in rank.passing_stacks[SCRIPT_WORK] if dump.pid == rank.process.pid]
    # A stack in a collective says nothing: the rank may share its results there, or wait for a slower rank.
    dumps = [dump for dump in own if collective(main_frames(dump)) in (None, "backward")]
    kinds = [_kind(rank, dump) for dump in dumps]
    others = sum(not in_model(main_frames(dump)) for dump in dumps)
    # In a short step the loop may be in the model already when the stack is taken. These stacks do not count.
    # Their share must not exceed what the model's share of the time makes likely.
    few = max(FEW_SCRIPT_STACKS, SCRIPT_STACKS_RATIO * others, 0.5 * share * len(dumps))
    shown = len(kinds) - kinds.count(None)
    if shown < few:
        return None
    kind: Kind = "other"
    if kinds.count("data") > shown / 2:
        kind = "data"
    elif kinds.count("work") >= few:
        kind = "work"
    starved = kind == "data" and pace.loader.between_steps
    if share < (limits.input_warning_ratio if starved else limits.input_critical_ratio):
        return None
    if kind == "work" and asleep_ratio(rank, STEPS_LOOK_BACK_S) >= 0.5 * share:
        return None
    shows = (kind,) if kind != "other" else ("data", "work", "other")
    aside = [dump for dump, shown_kind in zip(dumps, kinds, strict=True) if shown_kind in shows]
    step_s = median(now.step_s[known])
    if starved:
        between = rank.passing_stacks.get(BETWEEN_STEPS, [])
        if not pace.loader.acts and all(dump.feeds for dump in between):
            wait_s = mean(now.loop_wait_s)  # the loop makes data there as well
            share, usual_s, step_s = share + now.share, usual_s + wait_s, step_s + wait_s
            aside = sorted(aside + between, key=lambda dump: dump.taken_ns)
    return ScriptWork(
        pace, kind, min(1.0, share), len(aside) / len(own), usual_s, step_s, now.elapsed_s, aside
    )


def _kind(rank: RankWindow, dump: StackDump) -> Kind | None:
    """Return what a stack shows in the script's part of a step; None for no work or the loop's own pause."""
    frames = main_frames(dump)
    if not works_aside(frames):
        return None
    if dump.feeds:
        return "data"
    if waits_in(TIMER_FUNCTIONS, dump.wchan):
        frame, calls = user_frame(frames), rank.process.calls
        in_loop = any(frame and (call.file, call.function) == (frame.file, frame.function) for call in calls)
        return "other" if calls and not in_loop else None
    return "other" if computes_tensors(frames) else "work"


def _finding(work: ScriptWork, line: Frame | None, limits: Limits) -> Finding:
    rank, dump = work.pace.rank, usual_stack(work.dumps)
    # A remark has its own key, so that a pause that costs more becomes another incident.
    remark = work.kind == "other"
    finding = step_finding(
        _RULES[work.kind],
        "S26",
        rank,
        severity="info" if remark else "warning",
        confidence=0.5 if remark else 0.75,
        began_ns=rank.made_ns - int(work.elapsed_s * 1e9),
        share=work.share,
        lost_s=work.share * work.elapsed_s,
        params={
            "lost_ratio": work.share,
            "elapsed_s": work.elapsed_s,
            "line": code_line(line),
            "script_s": work.script_s,
            "step_s": work.step_s,
        },
        evidence=known_evidence(
            ("own-work-of-an-iteration", work.script_s, "s"),
            ("iteration", work.step_s, "s"),
            ("share-of-the-time", work.share, "ratio"),
        ),
        dump=dump,
    )
    loader = work.pace.loader
    if work.kind == "data" and loader.between_steps:  # the same finding as for data made between two steps
        return msgspec.structs.replace(
            finding,
            code=INPUT_BOUND,
            scenario="S01",
            key=f"{INPUT_BOUND}:{loader.loader}:steady",
            loader=loader.loader,
            aspect="steady",
            severity=by_share(work.share, limits),
        )
    return msgspec.structs.replace(finding, key=f"{CODE}:S26:other") if remark else finding
