"""All detectors, run over one window: a hang is not reported as a slow step, and one cause is one finding."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from loaderwatch.core.answers import Text
from loaderwatch.detect.evidence import RunEvidence
from loaderwatch.detect.families import FAMILIES
from loaderwatch.detect.finding import SEVERITIES, Finding, observed
from loaderwatch.detect.incidents.explained_findings import fold
from loaderwatch.detect.measures.rebuilt_loaders import joined
from loaderwatch.detect.measures.standstill import before_standstill
from loaderwatch.detect.window import RunWindow


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
        for detector in family.detectors:
            new = detector(run if family.judges_standstills else moving)
            if not family.judges_standstills:
                new = [_of_before(finding, still) for finding in new]
            for finding in new:
                findings.setdefault(finding.key, finding)
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
