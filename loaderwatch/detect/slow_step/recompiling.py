"""A loop that compiles in most of its steps, so that none of them stands out: S27, code ``slow-step``.

The sign is stacks taken in its steps, several of which show the compiler. The finding lasts as long as steps
take as long as then: such stacks are few, and steps get faster when a compiler is done.
"""

from __future__ import annotations

from typing import Final

from loaderwatch.core.facts import LONGER_STEP, SCRIPT_WORK, StackDump
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Finding, known_evidence
from loaderwatch.detect.loader_history import Course
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import builds_kernels, main_frames, user_frame
from loaderwatch.detect.measures.statistics import known, median
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.slow_step.step_finding import by_share, step_finding
from loaderwatch.detect.window import RankWindow

FEW_COMPILER_STACKS: Final = threshold(
    3, "stacks", "chosen: stacks are taken seconds apart; a model's first graphs take no longer"
)
COMPILER_STACKS_RATIO: Final = threshold(
    0.3, "ratio", "chosen: of the stacks taken since the first one that shows the compiler"
)
AS_LONG_RATIO: Final = threshold(
    0.5, "ratio", "chosen: of a step at the time of those stacks; compiled steps run faster"
)
STEPS_NOW_NS: Final = threshold(
    30_000_000_000, "ns", "chosen: the steps of the last 30 s count as the present ones"
)


def recompiling(rank: RankWindow, pace: Pace, limits: Limits) -> Finding | None:
    """Explain S27 in most steps; None if the stacks do not show it, or steps have become faster since."""
    course = rank.courses.get(pace.loader.loader)
    if course is None or not course.t_ns.size:
        return None
    looks = sorted(
        (
            dump
            for why in (LONGER_STEP, SCRIPT_WORK)
            for dump in rank.passing_stacks.get(why, [])
            if dump.pid == rank.process.pid and dump.taken_ns >= course.t_ns[0]
        ),
        key=lambda dump: dump.taken_ns,
    )
    building = [dump for dump in looks if builds_kernels(main_frames(dump))]
    if len(building) < FEW_COMPILER_STACKS:
        return None
    since = [dump for dump in looks if dump.taken_ns >= building[0].taken_ns]
    share = len(building) / len(since)
    if share < COMPILER_STACKS_RATIO or not _as_long(rank, pace, course, building):
        return None
    frame = user_frame(main_frames(building[-1]))
    lasted_s = (rank.made_ns - building[0].taken_ns) / 1e9
    return step_finding(
        "recompiles-most-steps",
        "S27",
        rank,
        severity=by_share(share, limits),
        confidence=0.9,
        began_ns=building[0].taken_ns,
        share=share,
        lost_s=share * lasted_s,
        params={
            "compiling_ratio": share,
            "compiling": len(building),
            "looks": len(since),
            "at": None if frame is None else frame.text,
        },
        evidence=known_evidence(
            ("looks-at-a-step", len(since), "count"),
            ("those-that-found-the-compiler", len(building), "count"),
        ),
        dump=building[-1],
    )


def _as_long(rank: RankWindow, pace: Pace, course: Course, building: list[StackDump]) -> bool:
    """Whether steps take as long now as at the time of the stacks, or none has ended for 30 s."""
    first, last = building[0].taken_ns, building[-1].taken_ns
    then = (course.t_ns >= first - course.slice_ns) & (course.t_ns <= last + course.slice_ns)
    now_s = pace.step_s[pace.request_ns >= rank.made_ns - STEPS_NOW_NS]
    then_s = known(course.step_s[then])
    return not now_s.size or not then_s.size or median(now_s) >= AS_LONG_RATIO * median(then_s)
