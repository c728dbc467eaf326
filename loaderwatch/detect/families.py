"""All rules: the families of findings in their order of precedence. ``loaderwatch rules`` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loaderwatch.detect import sample_timeout
from loaderwatch.detect.crash import caught_errors, unexplained
from loaderwatch.detect.crash import detector as crash
from loaderwatch.detect.crash import rules as crash_rules
from loaderwatch.detect.epoch_boundary import detector as epoch_boundary
from loaderwatch.detect.epoch_boundary import fast_forward, shards
from loaderwatch.detect.epoch_boundary import rules as boundary_rules
from loaderwatch.detect.evaluation import detector as evaluation
from loaderwatch.detect.hang import detector as hang
from loaderwatch.detect.hang import rules as hang_rules
from loaderwatch.detect.input_bound import detector as input_bound
from loaderwatch.detect.input_bound import dispatch, straggler
from loaderwatch.detect.input_bound import rules as wait_rules
from loaderwatch.detect.rule import Family, Rule
from loaderwatch.detect.running_out import (
    descriptors,
    disk,
    memory,
    ready_batches,
    shared_memory,
    slower_fetches,
    time_to_starvation,
)
from loaderwatch.detect.running_out import rules as resource_rules
from loaderwatch.detect.slow_step import (
    growing_steps,
    h2d,
    held_interpreter,
    pauses,
    sawtooth,
    script_work,
    slow_optimizer,
    slow_rank,
    waiting_loops,
    weak_gpu,
)
from loaderwatch.detect.slow_step import rules as step_rules

FAMILIES: Final = (
    Family("hung", "rank", (hang.detect,), hang_rules.RULES, judges_standstills=True),
    Family("crashed", "rank", (crash.detect, unexplained.detect), crash_rules.RULES, judges_standstills=True),
    Family("caught-error", "rank", (caught_errors.detect,), crash_rules.CAUGHT, judges_standstills=True),
    Family(
        "fast-forward", "loader", (fast_forward.detect,), boundary_rules.FAST_FORWARD, judges_standstills=True
    ),
    Family("epoch-boundary", "loader", (epoch_boundary.detect,), boundary_rules.RULES),
    Family(
        "input-bound",
        "loader",
        (shards.detect, script_work.detect_data, input_bound.detect),
        (
            Rule("workers-out-of-shards", "S23", shards.detect),
            Rule("one-rank-reads-for-all", "S18", dispatch.as_dispatch),
            Rule("straggler-waits-for-data", "S43", straggler.as_straggler),
            *wait_rules.RULES,
        ),
    ),
    Family(
        "slow-evaluation",
        "loader",
        (evaluation.detect,),
        (
            Rule("evaluation-workers-restart", "S55", evaluation.detect),
            Rule("evaluation-waits", "S55", evaluation.detect),
            Rule("evaluation-computes", "S55", evaluation.detect),
        ),
    ),
    Family(
        "slow-step",
        "rank",
        (
            weak_gpu.detect,
            slow_rank.detect,
            h2d.detect,
            growing_steps.detect,
            slow_optimizer.detect,
            waiting_loops.detect,
            held_interpreter.detect,
            script_work.detect,
            pauses.detect,
        ),
        step_rules.RULES,
    ),
    Family("gpu-sawtooth", "run", (sawtooth.detect,), step_rules.SAWTOOTH),
    Family(
        "headroom",
        "loader",
        (time_to_starvation.detect, ready_batches.detect, slower_fetches.detect),
        resource_rules.HEADROOM,
    ),
    Family(
        "running-out",
        "host",
        (shared_memory.detect, descriptors.detect, memory.detect, disk.detect),
        resource_rules.RULES,
        judges_standstills=True,
    ),
    Family(
        "sample-timeout",
        "loader",
        (sample_timeout.detect,),
        (Rule("sample-timeout", "", sample_timeout.detect),),
        judges_standstills=True,
    ),
)
"""The decisive families first: a hang is no slow step."""


def all_rules() -> Iterator[tuple[Family, Rule]]:
    """Yield each rule with its family, in order of precedence."""
    for family in FAMILIES:
        for rule in family.rules:
            yield family, rule
