"""Findings and their alerts."""

from __future__ import annotations

import msgspec

from loaderwatch.core.answers.basics import AlertState, Evidence, GainOf, Severity, Stack


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that another one explains. ``warned_s``: how long it had been an alert before."""

    key: str
    code: str
    scenario: str
    severity: Severity
    title: str
    evidence: list[Evidence]
    began_at: float
    warned_s: float | None


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and its alert, in ``GET /runs/{run}/findings``.

    ``recovering``: the detectors' last pass did not find it any more, and the alert is about to be resolved.
    """

    id: str
    key: str
    code: str
    scenario: str
    severity: Severity
    state: AlertState
    confidence: float
    rank: int | None
    host: str | None
    worker: int | None
    pid: int | None
    sample_indices: list[int]
    began_at: float
    ended_at: float | None
    title: str
    cause: str
    advice: str
    evidence: list[Evidence]
    lost_s: float | None
    gain_ceiling_ratio: float | None
    gain_of: GainOf = "finding"
    stacks: list[Stack]
    folded: list[Folded] = []
    silenced_until: float | None = None
    recovering: bool = False
