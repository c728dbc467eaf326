"""All detectors, in the order in which they decide: a hang is no slow step, one cause gives one finding."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

import msgspec

from loaderwatch.core.answers import Text
from loaderwatch.detect import sample_timeout
from loaderwatch.detect.crash import caught_errors
from loaderwatch.detect.crash import detector as crash
from loaderwatch.detect.epoch_boundary import detector as epoch_boundary
from loaderwatch.detect.epoch_boundary import fast_forward, shards
from loaderwatch.detect.evaluation import detector as evaluation
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.finding import SEVERITIES, Finding, observed
from loaderwatch.detect.hang import detector as hang
from loaderwatch.detect.incidents.explained_findings import fold
from loaderwatch.detect.input_bound import detector as input_bound
from loaderwatch.detect.measures.rebuilt_loaders import joined
from loaderwatch.detect.measures.standstill import before_standstill
from loaderwatch.detect.running_out import (
    descriptors,
    disk,
    memory,
    ready_batches,
    shared_memory,
    slower_fetches,
    time_to_starvation,
)
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
from loaderwatch.detect.window import RunWindow

Detector = Callable[[RunEvidence], list[Finding]]

DETECTORS: Final[tuple[Detector, ...]] = (
    hang.detect,
    crash.detect,
    caught_errors.detect,
    fast_forward.detect,
    epoch_boundary.detect,
    shards.detect,
    script_work.detect_data,
    input_bound.detect,
    weak_gpu.detect,
    slow_rank.detect,
    h2d.detect,
    evaluation.detect,
    growing_steps.detect,
    slow_optimizer.detect,
    waiting_loops.detect,
    held_interpreter.detect,
    script_work.detect,
    pauses.detect,
    sawtooth.detect,
    time_to_starvation.detect,
    ready_batches.detect,
    slower_fetches.detect,
    shared_memory.detect,
    descriptors.detect,
    memory.detect,
    disk.detect,
    sample_timeout.detect,
)
"""One detector for each family of findings, the decisive ones first."""

OF_STANDSTILLS: Final[frozenset[Detector]] = frozenset(
    (
        hang.detect,
        crash.detect,
        caught_errors.detect,
        fast_forward.detect,
        shared_memory.detect,
        descriptors.detect,
        memory.detect,
        disk.detect,
        sample_timeout.detect,
    )
)
"""Detectors that also judge a span that may stand still. The others judge a speed, of which such a span tells nothing until it ends."""


def detect(run: RunEvidence) -> list[Finding]:
    """Return the findings of a run in a window, the worst first: one for each cause, with its effects folded under it.

    Where several detectors find the same key, the first one's finding counts, because it knows the cause more
    exactly. A loader that is built anew for every epoch is one loader to all of them.
    """
    run = run.seen_as(joined(run.window))
    window = run.window
    moving = run.seen_as(before_standstill(window))
    still = {number for number, rank in window.ranks.items() if moving.window.ranks[number] is not rank}
    found: dict[str, Finding] = {}
    for detector in DETECTORS:
        if detector in OF_STANDSTILLS:
            new = detector(run)
        else:
            new = [_of_before(finding, still) for finding in detector(moving)]
        for finding in new:
            found.setdefault(finding.key, finding)
    if window.summed:
        found = {key: _in_part(finding, window) for key, finding in found.items()}
    folded = fold([finding for finding in found.values() if not finding.is_past])
    past = [finding for finding in found.values() if finding.is_past]
    return sorted([*folded, *past], key=lambda f: (-SEVERITIES[f.severity], -(f.lost_s or 0.0)))


def _of_before(finding: Finding, still: Set[int]) -> Finding:
    """Return a finding about speed; it is past if its rank, or any of several, may stand still now."""
    is_past = bool(still) if finding.rank is None else finding.rank in still
    return msgspec.structs.replace(finding, is_past=True) if is_past else finding


def _in_part(finding: Finding, window: RunWindow) -> Finding:
    """Say of how many ranks a finding about a large run speaks."""
    looked_at, known = len(window.ranks), len(window.ranks) + len(window.summed)
    of = Text("evidence-ranks-of", {"ranks": looked_at, "known": known})
    evidence = [*finding.evidence, observed("ranks-looked-at-in-detail", of, "text")]
    return msgspec.structs.replace(finding, evidence=evidence)
