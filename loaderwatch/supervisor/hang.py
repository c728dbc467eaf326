"""Which hang is a reason to restart the job, and how long to pause before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from loaderwatch.core.answers import Finding
from loaderwatch.core.facts import AT_END

LONGEST_PAUSE_S: Final = 600.0


def lasting_hang(
    findings: Iterable[Finding], *, began_at: float, now: float, after_s: float
) -> Finding | None:
    """Return the alert of a hang that has lasted ``after_s`` seconds; None if there is none.

    Only a critical, firing alert counts: a person who acknowledged or silenced it is looking into it, and
    slow input is no hang. A job whose script is over has done its work, and a restart would repeat it. An
    alert from before ``began_at``, the start of this attempt, belongs to an earlier attempt.
    """
    return next(
        (
            finding
            for finding in findings
            if finding.code == "hung"
            and (finding.severity, finding.state) == ("critical", "firing")
            and finding.began_at >= began_at
            and now - finding.began_at >= after_s
            and not any(fact.value == AT_END for fact in finding.evidence)
        ),
        None,
    )


def pause_s(restart: int, first_s: float) -> float:
    """Return the pause in seconds before the restart of this number: doubled each time, at most 10 min."""
    return min(first_s * 2.0 ** min(restart - 1, 30), max(first_s, LONGEST_PAUSE_S))
