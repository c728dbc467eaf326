"""All rules by family, and ``detect``, which runs their detectors over one window."""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

import msgspec

from loaderwatch.core.answers import Text
from loaderwatch.core.facts import ANSWER_WAIT, LONGER_STEP, SCRIPT_WORK
from loaderwatch.core.records import ProfilePart
from loaderwatch.detect import codes, sample_timeout
from loaderwatch.detect.crash import caught_errors, killed, unexplained
from loaderwatch.detect.crash import detector as crash
from loaderwatch.detect.epoch_boundary import causes, fast_forward, shards
from loaderwatch.detect.epoch_boundary import detector as epoch_boundary
from loaderwatch.detect.evaluation import detector as evaluation
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import SEVERITIES, Finding, observed
from loaderwatch.detect.hang import detector as hang
from loaderwatch.detect.hang import rules as hang_rules
from loaderwatch.detect.incidents.explained_findings import fold
from loaderwatch.detect.input_bound import detector as input_bound
from loaderwatch.detect.input_bound import dispatch, straggler
from loaderwatch.detect.input_bound import rules as wait_rules
from loaderwatch.detect.lost_time_lines import with_lines
from loaderwatch.detect.measures.rebuilt_loaders import joined
from loaderwatch.detect.measures.standstill import before_standstill
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
from loaderwatch.detect.slow_step import rules as step_rules
from loaderwatch.detect.slow_step import sawtooth, script_work
from loaderwatch.detect.window import RunWindow

RESOURCES: Final = (
    Rule("shared-memory-fills-up", "S39", shared_memory.detect),
    Rule("shared-memory-too-small", "S39", shared_memory.detect),
    Rule("descriptors-run-out", "S40", descriptors.detect),
    Rule("memory-runs-out", "S24", memory.detect),
    Rule("disk-fills-up", "S56", disk.detect),
    Rule("checkpoint-does-not-fit", "S56", disk.detect),
)

HEADROOM: Final = (
    Rule("gpu-work-used-up", "", time_to_starvation.detect),
    Rule("loader-barely-keeps-up", "", time_to_starvation.detect),
    Rule("read-ahead-used-up", "", ready_batches.detect),
    Rule("fetches-get-slower", "S58", slower_fetches.detect),
)


BOUNDARIES: Final = (
    Rule("iterator-per-batch", "S32", causes.explain_rebuilt),
    Rule("slow-shuffle", "S15", causes.explain),
    Rule("slow-worker-shutdown", "S31", causes.explain),
    Rule("read-ahead-thrown-away", "S30", causes.explain),
    Rule("shuffle-buffer-refilled", "S33", causes.explain),
    Rule("first-batch-not-read-ahead", "S33", causes.explain),
    Rule("first-batch-without-workers", "S33", causes.explain),
    Rule("workers-restarted-each-epoch", "S28", causes.explain),
    Rule("dataloader-made-each-epoch", "S28", causes.explain),
)

FAST_FORWARD: Final = (Rule("resume-reads-again", "S34", fast_forward.detect),)


CRASHED: Final = (
    Rule("sample-took-too-long", "", crash.late_sample_error),
    Rule("disk-full", "S56", crash.full_disk_error),
    Rule("shared-memory-full", "S39", crash.detect),
    Rule("descriptors-exhausted", "S40", crash.detect),
    Rule("worker-descriptors-exhausted", "S40", crash.detect),
    Rule("worker-ended-at-slow-sample", "", crash.late_sample_signal),
    Rule("killed-out-of-memory", "S37", killed.killed_worker),
    Rule("killed-perhaps-out-of-memory", "S37", killed.killed_worker),
    Rule("killed-from-outside", "S37", killed.killed_worker),
    Rule("ended-by-signal", "S37", killed.killed_worker),
    Rule("native-code-crashed", "S37", killed.killed_worker),
    Rule("worker-vanished", "S37", killed.killed_worker),
    Rule("loader-cannot-be-pickled", "S42", crash.detect),
    Rule("cuda-used-before-fork", "S42", crash.detect),
    Rule("daemonic-process", "S42", crash.detect),
    Rule("no-main-guard", "S42", crash.detect),
    Rule("error-while-starting-workers", "S42", crash.detect),
    Rule("sample-raised-error", "", crash.failed_fetch),
    Rule("batch-raised-error", "", crash.failed_fetch),
    Rule("collating-raised-error", "", crash.failed_fetch),
    # What no other rule explains.
    Rule("uncaught-error", "", unexplained.detect),
    Rule("exit-code-chosen", "", unexplained.detect),
    Rule("fault-in-native-code", "S37", unexplained.detect),
    Rule("signal-was-sent", "S37", unexplained.detect),
    Rule("process-was-killed", "S37", unexplained.detect),
    Rule("process-vanished", "S37", unexplained.detect),
)

CAUGHT: Final = (
    Rule("worker-death-caught", "S37", caught_errors.detect),
    Rule("loader-error-caught", "S22", caught_errors.detect),
)


FAMILIES: Final = (
    Family(codes.HUNG, "rank", hang_rules.RULES, (hang.detect,), judges_standstills=True),
    Family(codes.CRASHED, "rank", CRASHED, (crash.detect, unexplained.detect), judges_standstills=True),
    Family(codes.CAUGHT_ERROR, "rank", CAUGHT, judges_standstills=True),
    Family(codes.FAST_FORWARD, "loader", FAST_FORWARD, judges_standstills=True),
    Family(codes.EPOCH_BOUNDARY, "loader", BOUNDARIES, (epoch_boundary.detect,), part=ProfilePart.BOUNDARY),
    Family(
        codes.INPUT_BOUND,
        "loader",
        (
            Rule("workers-out-of-shards", "S23", shards.detect),
            Rule("data-made-in-loop", "S01 S26", script_work.detect_data, SCRIPT_WORK),
            Rule("one-rank-reads-for-all", "S18", dispatch.as_dispatch),
            Rule("straggler-waits-for-data", "S43", straggler.as_straggler),
            *wait_rules.RULES,
        ),
        (shards.detect, script_work.detect_data, input_bound.detect),
        part=ProfilePart.FETCH,
    ),
    Family(
        codes.SLOW_EVALUATION,
        "loader",
        (
            Rule("evaluation-workers-restart", "S55", evaluation.detect),
            Rule("evaluation-waits", "S55", evaluation.detect),
            Rule("evaluation-computes", "S55", evaluation.detect),
        ),
        part=ProfilePart.EVALUATION,
    ),
    Family(codes.SLOW_STEP, "rank", step_rules.RULES),
    Family(codes.GPU_SAWTOOTH, "run", step_rules.SAWTOOTH, (sawtooth.detect,)),
    Family(codes.HEADROOM, "loader", HEADROOM),
    Family(codes.RUNNING_OUT, "host", RESOURCES, judges_standstills=True),
    Family(
        codes.SAMPLE_TIMEOUT,
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


_IN_STEPS: Final = (SCRIPT_WORK, LONGER_STEP, ANSWER_WAIT)
"""Stacks that are taken because usual steps take long. ``LONG_STEP`` is a single one, as no other step is."""


def _part(family: Family, rule: Rule) -> ProfilePart | None:
    """Return the part whose lines are named with a finding. Waits for data ask for answers in fetches."""
    in_steps = rule.stacks == SCRIPT_WORK or (family.part is None and rule.stacks in _IN_STEPS)
    return ProfilePart.STEP if in_steps else family.part


PARTS: Final = {rule.id: _part(family, rule) for family, rule in all_rules()}
"""By rule, the part whose lines are named with its findings; None if none are."""


def detect(run: RunEvidence) -> list[Finding]:
    """Return the findings of a run in a window, one per cause with its effects, the worst first.

    If several detectors find the same key, the first finding counts, because it knows the cause more exactly.
    A loader that the script recreates for every epoch counts as one loader.
    """
    run = run.seen_as(joined(run.window))
    window = run.window
    moving = run.seen_as(before_standstill(window))
    still = {number for number, rank in window.ranks.items() if moving.window.ranks[number] is not rank}
    findings: dict[str, Finding] = {}
    for family in FAMILIES:
        for look in family.detectors:
            new = look(run if family.judges_standstills else moving)
            if not family.judges_standstills:
                new = [_of_before(finding, still) for finding in new]
            for finding in new:
                part = PARTS.get(finding.rule, family.part)
                findings.setdefault(finding.key, finding if part is None else with_lines(run, finding, part))
    if window.summed:
        findings = {key: _in_part(finding, window) for key, finding in findings.items()}
    folded = fold([finding for finding in findings.values() if not finding.is_past])
    past = [finding for finding in findings.values() if finding.is_past]
    return sorted([*folded, *past], key=lambda f: (-SEVERITIES[f.severity], -(f.lost_s or 0.0)))


def _of_before(finding: Finding, still: Set[int]) -> Finding:
    """Mark a finding about speed as past if its rank, or any rank if it names none, may stand still now."""
    is_past = bool(still) if finding.rank is None else finding.rank in still
    return msgspec.structs.replace(finding, is_past=True) if is_past else finding


def _in_part(finding: Finding, window: RunWindow) -> Finding:
    """Add to a finding about a large run how many of its ranks were looked at."""
    looked_at, known = len(window.ranks), len(window.ranks) + len(window.summed)
    of = Text("evidence-ranks-of", {"ranks": looked_at, "known": known})
    evidence = [*finding.evidence, observed("ranks-looked-at-in-detail", of, "text")]
    return msgspec.structs.replace(finding, evidence=evidence)
