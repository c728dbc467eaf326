"""The cause of a wait where no loader is known: S01 in what the script does between two steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from loaderwatch.core.facts import BETWEEN_STEPS, StackDump
from loaderwatch.core.system import ANSWER_FUNCTIONS, waits_in
from loaderwatch.detect.explanation import NEED_NO_ANSWER, Explanation
from loaderwatch.detect.input_bound.symptoms import Symptoms
from loaderwatch.detect.measures.stacks import Frame, awaited, main_frames, saving, user_frame, waits_on_queue
from loaderwatch.detect.text import duration, rate


def between_steps(s: Symptoms) -> Explanation | None:
    """Explain S01: a training without a loader, whose model has nothing to do from a step to the next call."""
    if not s.loader.between_steps:
        return None
    dump = s.between_steps
    frames = main_frames(dump)
    frame = user_frame(frames)
    speed = f"{rate(1 / s.iteration_s)} iterations/s, the model could take {rate(1 / s.step_s)}"
    found = Explanation(
        scenario="S01",
        confidence=0.5 if frame is None else 0.8,
        because=f"lately at {frame}; {speed}" if frame is not None else speed,
        cause=f"No DataLoader is iterated. From a step of the optimizer to the model's next call the script takes"
        f" {duration(s.wait_s)}, and the model stands still meanwhile. A step takes {duration(s.step_s)}.",
        gain_ceiling_ratio=s.gain(max(s.step_s, 0.0)),
        stacks=[] if dump is None else [dump],
    )
    if waits_on_queue(frames):
        return replace(
            found,
            cause=f"{found.cause} It waits on a queue: whoever fills it does not keep up.",
            advice="Fill the queue from several processes, or make each entry cheaper to make. Threads share one interpreter, and compute"
            " in turn.",
        )
    if frame is not None and _saves(s.pace.rank.passing_stacks[BETWEEN_STEPS], frame):
        return replace(
            found,
            advice="Save less often, or asynchronously: copy the state first, and write it in another thread.",
        )
    if dump is not None and waits_in(ANSWER_FUNCTIONS, dump.wchan):
        return replace(
            found,
            cause=f"{found.cause} It waits there for {awaited(frames, dump.wchan or '')}.",
            advice=NEED_NO_ANSWER,
        )
    return replace(
        found,
        advice="If a batch is made there, let others make it while the model works: move that code into a Dataset and iterate a"
        " DataLoader with num_workers, or fill a queue from a background process. If it is logging, do it less often.",
    )


def _saves(dumps: Sequence[StackDump], at: Frame) -> bool:
    """Whether a function of the script writes checkpoints: one of the stacks shows it, not necessarily the newest."""
    shown = (user_frame(frames) for frames in map(main_frames, dumps) if saving(frames))
    return any(frame and (frame.file, frame.function) == (at.file, at.function) for frame in shown)
