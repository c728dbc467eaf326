"""All rules: the families of findings in their order of precedence. ``loaderwatch rules`` prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from loaderwatch.core.facts import SCRIPT_WORK
from loaderwatch.detect import sample_timeout
from loaderwatch.detect.crash import detector as crash
from loaderwatch.detect.crash import rules as crash_rules
from loaderwatch.detect.crash import unexplained
from loaderwatch.detect.epoch_boundary import detector as epoch_boundary
from loaderwatch.detect.epoch_boundary import rules as boundary_rules
from loaderwatch.detect.epoch_boundary import shards
from loaderwatch.detect.evaluation import detector as evaluation
from loaderwatch.detect.hang import detector as hang
from loaderwatch.detect.hang import rules as hang_rules
from loaderwatch.detect.input_bound import detector as input_bound
from loaderwatch.detect.input_bound import dispatch, straggler
from loaderwatch.detect.input_bound import rules as wait_rules
from loaderwatch.detect.rule import Family, Rule
from loaderwatch.detect.running_out import rules as resource_rules
from loaderwatch.detect.slow_step import rules as step_rules
from loaderwatch.detect.slow_step import (
    sawtooth,
    script_work,
)

FAMILIES: Final = (
    Family("hung", "rank", hang_rules.RULES, (hang.detect,), judges_standstills=True),
    Family("crashed", "rank", crash_rules.RULES, (crash.detect, unexplained.detect), judges_standstills=True),
    Family("caught-error", "rank", crash_rules.CAUGHT, judges_standstills=True),
    Family("fast-forward", "loader", boundary_rules.FAST_FORWARD, judges_standstills=True),
    Family("epoch-boundary", "loader", boundary_rules.RULES, (epoch_boundary.detect,)),
    Family(
        "input-bound",
        "loader",
        (
            Rule("workers-out-of-shards", "S23", shards.detect),
            Rule("data-made-in-loop", "S01 S26", script_work.detect_data, SCRIPT_WORK),
            Rule("one-rank-reads-for-all", "S18", dispatch.as_dispatch),
            Rule("straggler-waits-for-data", "S43", straggler.as_straggler),
            *wait_rules.RULES,
        ),
        (shards.detect, script_work.detect_data, input_bound.detect),
    ),
    Family(
        "slow-evaluation",
        "loader",
        (
            Rule("evaluation-workers-restart", "S55", evaluation.detect),
            Rule("evaluation-waits", "S55", evaluation.detect),
            Rule("evaluation-computes", "S55", evaluation.detect),
        ),
    ),
    Family("slow-step", "rank", step_rules.RULES),
    Family("gpu-sawtooth", "run", step_rules.SAWTOOTH, (sawtooth.detect,)),
    Family("headroom", "loader", resource_rules.HEADROOM),
    Family("running-out", "host", resource_rules.RULES, judges_standstills=True),
    Family(
        "sample-timeout",
        "loader",
        (Rule("sample-timeout", "", sample_timeout.detect),),
        judges_standstills=True,
    ),
)
"""The families in order of precedence: a hang, for example, is not reported as a slow step."""


def all_rules() -> Iterator[tuple[Family, Rule]]:
    """Yield each rule with its family, in order of precedence."""
    for family in FAMILIES:
        for rule in family.rules:
            yield family, rule
