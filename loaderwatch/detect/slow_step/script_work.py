"""Work of the script's own that takes much of every step, while no data is awaited: S26, code ``slow-step``.

A metric in pure Python, texts that are cut into tokens, lists made of tensors: each step is as long as the one before, so that
none stands out, and nothing grows. It is told from the part of a step that is neither copy nor model nor optimizer, and by
stacks taken in that part. A loss that is computed outside of the model is such a part as well: where the stacks end in
PyTorch's own code, nothing is said. On a GPU the loop may be ahead of it; what the work costs there, ``sawtooth`` finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from loaderwatch.core.facts import SCRIPT_WORK, StackDump
from loaderwatch.core.system import TIMER_FUNCTIONS, waits_in
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.measures.machine import asleep_ratio
from loaderwatch.detect.measures.pace import Pace, paces
from loaderwatch.detect.measures.stacks import (
    collective,
    computes_tensors,
    in_model,
    main_frames,
    user_frame,
    usual_stack,
    works_aside,
)
from loaderwatch.detect.measures.statistics import median
from loaderwatch.detect.slow_step.long_steps import CODE
from loaderwatch.detect.text import duration, measured, percent
from loaderwatch.detect.window import RankWindow, RunWindow

LOOK_BACK_S: Final = 60.0
LEAST_S: Final = 10.0
FEW_STEPS: Final = 20
FEW_STACKS: Final = 2
STACKS_PART: Final = 0.6
"""Of the stacks taken in the script's part of a step, those that show its work. In short steps the loop may have come to the model
before a stack was taken; those do not count, but they are no more of all than the model's part of the time makes likely."""


@dataclass(frozen=True)
class ScriptWork:
    """How long a loop works for the script in each step, in seconds."""

    rank: RankWindow
    share: float  # of all time, 0 to 1
    seen_part: float  # of the stacks taken in that part, those that show its work
    script_s: float  # of the usual step
    step_s: float
    elapsed_s: float
    dumps: list[StackDump]  # taken in that part of a step, oldest first


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """Return at most one finding, that of the rank whose script works most, by its stacks too; the others wait for it."""
    found = [
        work
        for rank in window.ranks.values()
        if rank.process.state == "live" and not rank.process.cuda and rank.passing_stacks.get(SCRIPT_WORK)
        for pace in paces(rank)
        if (work := _work(rank, pace, limits)) is not None
    ]
    return [_finding(max(found, key=lambda work: work.share * work.seen_part))] if found else []


def _work(rank: RankWindow, pace: Pace, limits: Limits) -> ScriptWork | None:
    """Return how a rank's script works; None where that is little, its model is not timed, or the stacks show something else.

    It alerts only where it costs as much as what is critical elsewhere: some work of its own every loop has.
    """
    now = pace.since(rank.made_ns - int(LOOK_BACK_S * 1e9))
    script_s = now.step_s - now.phases_s
    known = np.isfinite(script_s)
    if (
        pace.clock != "loop"
        or int(known.sum()) < max(FEW_STEPS, 0.5 * script_s.size)
        or now.total_s < LEAST_S
    ):
        return None
    usual_s = median(script_s[known])
    share = usual_s * script_s.size / now.total_s
    if share < limits.input_critical_ratio or asleep_ratio(rank, LOOK_BACK_S) >= 0.5 * share:
        return None
    own = [dump for dump in rank.passing_stacks[SCRIPT_WORK] if dump.pid == rank.process.pid]
    # One in a collective says nothing: the rank may hand its own results on there, or wait for one that works longer.
    dumps = [dump for dump in own if collective(main_frames(dump)) in (None, "backward")]
    aside = [dump for dump in dumps if _shows_work(dump)]
    others = [dump for dump in dumps if not in_model(main_frames(dump))]
    if len(aside) < max(FEW_STACKS, STACKS_PART * len(others), 0.5 * share * len(dumps)):
        return None
    return ScriptWork(
        rank, min(1.0, share), len(aside) / len(own), usual_s, median(now.step_s[known]), now.total_s, aside
    )


def _shows_work(dump: StackDump) -> bool:
    frames = main_frames(dump)
    asleep = waits_in(TIMER_FUNCTIONS, dump.wchan)
    return works_aside(frames) and not computes_tensors(frames) and not asleep


def _finding(found: ScriptWork) -> Finding:
    rank, dump = found.rank, usual_stack(found.dumps)
    who = f"Rank {rank.rank}" if rank.process.world_size > 1 else "Training"
    frame = user_frame(main_frames(dump))
    return Finding(
        key=f"{CODE}:S26",
        code=CODE,
        scenario="S26",
        severity="warning",
        confidence=0.75,
        began_ns=rank.made_ns - int(found.elapsed_s * 1e9),
        title=f"{who} loses {percent(found.share)} of its time {measured(found.elapsed_s)} to work of the script's own in every step, lately at"
        f" {frame}: {duration(found.script_s)} of {duration(found.step_s)}; the data loader is not the cause.",
        cause="That part of a step is neither in the model nor in the optimizer, and its stacks end in the script's own code.",
        advice="Do it with tensors, on part of the batch, every few steps, or in the workers. If it is part of the loss, it is the model's.",
        evidence=known_evidence(
            ("own work of a step", found.script_s, "s"),
            ("step", found.step_s, "s"),
            ("share of the time", found.share, "ratio"),
        ),
        rank=rank.rank,
        host=rank.host,
        pid=rank.process.pid,
        lost_s=found.share * found.elapsed_s,
        gain_ceiling_ratio=found.share,
        stacks=[] if dump is None else [dump],
    )
