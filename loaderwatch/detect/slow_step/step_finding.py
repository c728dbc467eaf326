"""The finding of a rank whose steps are long, as all rules of the family make it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loaderwatch.core.answers import Evidence, Param, Severity
from loaderwatch.core.facts import StackDump
from loaderwatch.detect.codes import SLOW_STEP as CODE
from loaderwatch.detect.evidence import RankEvidence
from loaderwatch.detect.finding import Finding, who
from loaderwatch.detect.shared_thresholds import Limits
from loaderwatch.detect.window import RankWindow


def step_finding(
    rule: str,
    scenario: str,
    rank: RankWindow | RankEvidence,
    *,
    severity: Severity,
    confidence: float,
    began_ns: int,
    share: float,
    lost_s: float,
    params: Mapping[str, Param],
    evidence: Sequence[Evidence],
    dump: StackDump | None = None,
) -> Finding:
    """Return the finding of a rank that loses ``share`` (0 to 1) of its time in steps, ``lost_s`` in all.

    Findings of one scenario share one key: the worst rank may change, and the alert goes on.
    """
    return Finding(
        key=f"{CODE}:{scenario}",
        code=CODE,
        scenario=scenario,
        severity=severity,
        confidence=confidence,
        began_ns=began_ns,
        rule=rule,
        params={**who([rank.rank], rank.process.world_size), **params},
        evidence=list(evidence),
        rank=rank.rank,
        host=rank.host,
        pid=rank.process.pid,
        lost_s=lost_s,
        gain_ceiling_ratio=share,
        stacks=[] if dump is None else [dump],
    )


def by_share(share: float, limits: Limits) -> Severity:
    """Return the severity of a share of the time that nobody intends to spend."""
    if share >= limits.input_critical_ratio:
        return "critical"
    return "warning" if share >= limits.input_warning_ratio else "info"


def if_it_costs_much(share: float, limits: Limits) -> Severity:
    """Return the severity of work that may be intended: a warning above the critical share, else a remark."""
    return "warning" if share >= limits.input_critical_ratio else "info"
