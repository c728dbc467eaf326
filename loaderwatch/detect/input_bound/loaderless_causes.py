"""Waits of a loop without a known loader: whether they are intended, and their cause S01 in the script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.core.facts import BETWEEN_STEPS, StackDump
from loaderwatch.core.system import ANSWER_FUNCTIONS, TIMER_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.finding import Explanation
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import (
    Frame,
    awaited,
    code_line,
    in_forward,
    in_model,
    main_frames,
    saving,
    user_frame,
    waits_on_queue,
)
from loaderwatch.detect.measures.statistics import MANY_TICKS, by_a_clock, median
from loaderwatch.detect.window import seconds

FEW_ACTING_STACKS: Final = threshold(
    2, "stacks", "chosen: that show the model at work; a single one may come from a late signal"
)


def is_meant(s: Symptoms) -> bool:
    """Whether a loop without a loader is slow on purpose: throttled, or its model works between the steps."""
    return s.loader.between_steps and (_throttled(s) or _acts(s))


def _throttled(s: Symptoms) -> bool:
    """Whether the loop is slow on purpose (N35).

    It sleeps between its steps, in a line of the loop itself, or such that all iterations take the same time.
    """
    dump, calls = s.between_steps, s.pace.rank.process.calls
    frame = user_frame(main_frames(dump))
    if dump is None or frame is None or not calls:
        return False
    asleep = waits_in(TIMER_FUNCTIONS, dump.wchan)
    own_line = any((frame.file, frame.function) == (call.file, call.function) for call in calls)
    return asleep and (own_line or _paced(s.pace))


def _paced(pace: Pace) -> bool:
    """Whether the iterations follow a clock."""
    ticks_s = (pace.request_ns - pace.request_ns[0]) / 1e9 + pace.loop_wait_s
    return ticks_s.size >= MANY_TICKS and by_a_clock(ticks_s)


def _acts(s: Symptoms) -> bool:
    """Whether the model works between two steps, such as an agent that acts in its environment (N39).

    Most stacks must show the model at work, and more than late signals can explain: the steps' own forward
    passes must take less time than the gap. One stack is enough if the model is known to be called in the gap
    repeatedly. Few stacks that contradict each other decide nothing.
    """
    frames = [main_frames(dump) for dump in s.pace.rank.passing_stacks.get(BETWEEN_STEPS, [])]
    shown, aside = sum(map(in_forward, frames)), sum(not in_model(stack) for stack in frames)
    own_s = median(seconds(s.pace.rank.table("steps")["forward_ns"]))
    if own_s > s.wait_s:
        return False
    if s.loader.acts:
        return shown >= 1 or aside <= FEW_ACTING_STACKS
    return shown == aside == 1 or (shown >= FEW_ACTING_STACKS and shown > aside)


def between_steps(s: Symptoms) -> Explanation | None:
    """Explain S01 without a loader: the model has nothing to do between a step and its next call."""
    if not s.loader.between_steps:
        return None
    dump = s.between_steps
    frames = main_frames(dump)
    frame = user_frame(frames)
    source = None
    if waits_on_queue(frames):
        rule = "queue-between-steps"
    elif frame is not None and _saves(s.pace.rank.passing_stacks.get(BETWEEN_STEPS, []), frame):
        rule = "save-between-steps"
    elif dump is not None and waits_in(ANSWER_FUNCTIONS, dump.wchan):
        rule, source = "answer-between-steps", awaited(frames, dump.wchan or "")
    else:
        rule = "script-between-steps"
    return Explanation(
        scenario="S01",
        confidence=0.5 if frame is None else 0.8,
        rule=rule,
        params={
            "line": code_line(frame),
            "iteration_s": s.iteration_s,
            "step_s": s.step_s,
            "wait_s": s.wait_s,
            "awaited": source,
        },
        gain_ceiling_ratio=s.gain(max(s.step_s, 0.0)),
        stacks=[] if dump is None else [dump],
    )


def _saves(dumps: Sequence[StackDump], at: Frame) -> bool:
    """Whether this function of the script writes checkpoints, as any of the stacks shows."""
    shown = (user_frame(frames) for frames in map(main_frames, dumps) if saving(frames))
    return any(frame and (frame.file, frame.function) == (at.file, at.function) for frame in shown)
