"""A finding, which is what a detector concluded, and its occurrence over time."""

from __future__ import annotations

import math
from typing import Final, Protocol

import msgspec

from loaderwatch.core.answers import Evidence, GainOf, Severity, Unit
from loaderwatch.core.facts import StackDump

SEVERITIES: Final = {"info": 0, "warning": 1, "critical": 2}


def known_evidence(*values: tuple[str, float | int | str | None, Unit]) -> list[Evidence]:
    """Return evidence of those (label, value, unit) whose value is known: not None, NaN or infinite."""
    return [
        Evidence(label=label, value=value, unit=unit)
        for label, value, unit in values
        if value is not None and not (isinstance(value, float) and not math.isfinite(value))
    ]


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that another one explains: it is shown under that one and raises no alert of its own."""

    key: str
    code: str
    scenario: str
    severity: Severity
    title: str
    began_ns: int  # UTC
    evidence: list[Evidence] = []
    warned_s: float | None = None  # seconds as an alert before the finding above took over; None: it was none


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One conclusion of a detector over one window.

    ``key`` says which findings of later windows are the same incident: the tracker merges those, and people
    are alerted once.
    """

    key: str
    code: str  # the heading in docs/detectors.md: "input-bound", "epoch-boundary", "hung"
    scenario: str  # the scenario's id, "S02"
    severity: Severity  # "info" never alerts
    confidence: float  # 0 to 1
    began_ns: int  # UTC
    ended_ns: int | None = None  # None while it goes on
    title: str  # the verdict: one sentence with the number that matters
    cause: str
    advice: str
    evidence: list[Evidence] = []
    rank: int | None = None
    host: str | None = None
    worker: int | None = None
    pid: int | None = None
    sample_indices: list[int] = []
    lost_s: float | None = None  # training time lost within [began, now]
    gain_ceiling_ratio: float | None = None  # at most this share of the time in ``gain_of`` comes back
    gain_of: GainOf = "finding"  # the time while the finding lasts, or the whole run
    stacks: list[StackDump] = []
    folded: list[Folded] = []  # the findings that this one explains, see incidents/folding.py
    is_past: bool = False  # its rank may stand still since: it keeps an incident as it is, and opens none


def warned_s(finding: Finding) -> float | None:
    """Return how many seconds before people were warned of what has now come; None when they were not."""
    return max((each.warned_s for each in finding.folded if each.warned_s is not None), default=None)


class Occurrence(Protocol):
    """A finding over its life: an incident, or the alert that people are told of."""

    @property
    def id(self) -> str: ...

    @property
    def finding(self) -> Finding: ...

    @property
    def opened_ns(self) -> int: ...

    @property
    def closed_ns(self) -> int | None: ...
