"""The rules of families ``slow-step`` and ``gpu-sawtooth``: why steps are long although data is there."""

from __future__ import annotations

from typing import Final

from loaderwatch.core.facts import (
    ANSWER_WAIT,
    GPU_IDLE,
    INTERPRETER_HELD,
    LONG_STEP,
    LONGER_STEP,
    SCRIPT_WORK,
)
from loaderwatch.detect.rule import Rule
from loaderwatch.detect.slow_step import (
    growing_steps,
    h2d,
    held_interpreter,
    pauses,
    sawtooth,
    sawtooth_causes,
    script_work,
    slow_optimizer,
    slow_rank,
    waiting_loops,
    weak_gpu,
)

RULES: Final = (
    Rule("gpu-throttled", "S48", weak_gpu.detect),
    Rule("gpu-shared", "S48", weak_gpu.detect),
    Rule("rank-works-longer", "S48", slow_rank.detect, SCRIPT_WORK),
    Rule("copies-at-bus-speed", "S17", h2d.detect),
    Rule("blocking-copies", "S17", h2d.detect),
    Rule("copies-from-pageable-memory", "S17", h2d.detect),
    Rule("script-work-grows", "S26", growing_steps.detect, SCRIPT_WORK),
    Rule("model-pass-grows", "S26", growing_steps.detect, LONGER_STEP),
    Rule("steps-grow", "S26", growing_steps.detect, LONGER_STEP),
    Rule("optimizer-slowed-down", "S26", slow_optimizer.detect, LONGER_STEP),
    Rule("answers-awaited-in-steps", "S26", waiting_loops.detect, ANSWER_WAIT),
    Rule("interpreter-held-in-steps", "S14", held_interpreter.detect, INTERPRETER_HELD),
    Rule("script-work-in-steps", "S26", script_work.detect, SCRIPT_WORK),
    Rule("code-beside-model", "S26", script_work.detect, SCRIPT_WORK),
    Rule("garbage-collector-in-steps", "S25", pauses.detect),
    Rule("new-batch-sizes", "S27", pauses.detect, LONG_STEP),
    Rule("last-batch-shorter", "S27", pauses.detect, LONG_STEP),
    Rule("compiling-in-steps", "S27", pauses.detect, LONG_STEP),
    Rule("padded-batches", "S27", pauses.detect),
    Rule("recompiles-most-steps", "S27", pauses.detect, LONG_STEP),
    Rule("polling-in-steps", "S26", pauses.detect, LONG_STEP),
    Rule("file-lock-in-steps", "S26", pauses.detect, LONG_STEP),
    Rule("model-acts-in-steps", "S26", pauses.detect, LONG_STEP),
    Rule("unattached-loader-in-steps", "S26", pauses.detect, LONG_STEP),
    Rule("own-work-in-steps", "S26", pauses.detect, LONG_STEP),
)

SAWTOOTH: Final = (
    Rule("gpu-synchronised-each-step", "S50", sawtooth_causes.synchronisation, GPU_IDLE),
    Rule("launch-bound", "S51", sawtooth_causes.launch_bound),
    Rule("model-on-the-cpu", "S26", sawtooth_causes.model_on_the_cpu, GPU_IDLE),
    Rule("gpu-waits-for-batch-copy", "S17", sawtooth_causes.before_the_model, GPU_IDLE),
    Rule("gpu-waits-for-optimizer", "S26", sawtooth_causes.optimizer, GPU_IDLE),
    Rule("gpu-waits-for-checkpoint", "S26", sawtooth_causes.own_work, GPU_IDLE),
    Rule("gpu-waits-for-loop", "S26", sawtooth_causes.own_work, GPU_IDLE),
    Rule("gpu-idle-unexplained", "S26", sawtooth.detect),
)
