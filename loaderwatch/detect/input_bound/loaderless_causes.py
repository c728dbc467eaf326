"""A wait where no loader is known: whether it is meant, and its cause, S01 in what the script does between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.core.facts import BETWEEN_STEPS, StackDump
from loaderwatch.core.system import ANSWER_FUNCTIONS, TIMER_FUNCTIONS, waits_in
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.explanation import Explanation
from loaderwatch.detect.input_bound.message_names import code_line
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.stacks import (
    Frame,
    awaited,
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
    2, "stacks", "chosen: of a model at work; a single one may be a signal that came late"
)


def is_meant(s: Symptoms) -> bool:
    """Whether a loop without a loader is as slow as it is meant to be: it is held back, or its model works there, too."""
    return s.loader.between_steps and (_throttled(s) or _acts(s))


def _throttled(s: Symptoms) -> bool:
    """Whether it is meant to go slowly (N35).

    It sleeps between its steps: in a line of its own or of a loop around it, or wherever that makes all iterations take the same time.
    """
    dump, calls = s.between_steps, s.pace.rank.process.calls
    frame = user_frame(main_frames(dump))
    if dump is None or frame is None or not calls:
        return False
    asleep = waits_in(TIMER_FUNCTIONS, dump.wchan)
    own_line = any((frame.file, frame.function) == (call.file, call.function) for call in calls)
    return asleep and (own_line or _paced(s.pace))


def _paced(pace: Pace) -> bool:
    """Whether iterations go by a clock."""
    ticks_s = (pace.request_ns - pace.request_ns[0]) / 1e9 + pace.loop_wait_s
    return ticks_s.size >= MANY_TICKS and by_a_clock(ticks_s)


def _acts(s: Symptoms) -> bool:
    """Whether the model works between two steps, as an agent's that acts in its environment (N39): it does not stand still.

    Most stacks show it, more than signals that came late: the steps' own forward passes take less than what lies between. One
    is enough where the model is seen to be called there again and again. Few stacks that say both do not settle it.
    """
    frames = [main_frames(dump) for dump in s.pace.rank.passing_stacks.get(BETWEEN_STEPS, [])]
    shown, aside = sum(map(in_forward, frames)), sum(not in_model(each) for each in frames)
    own_s = median(seconds(s.pace.rank.table("steps")["forward_ns"]))
    if own_s > s.wait_s:
        return False
    if s.loader.acts:
        return shown >= 1 or aside <= FEW_ACTING_STACKS
    return shown == aside == 1 or (shown >= FEW_ACTING_STACKS and shown > aside)


def between_steps(s: Symptoms) -> Explanation | None:
    """Explain S01: a training without a loader, whose model has nothing to do from a step to the next call."""
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
    """Whether a function of the script writes checkpoints: one of the stacks shows it, not necessarily the newest."""
    shown = (user_frame(frames) for frames in map(main_frames, dumps) if saving(frames))
    return any(frame and (frame.file, frame.function) == (at.file, at.function) for frame in shown)
