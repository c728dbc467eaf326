"""Findings and their alerts."""

from __future__ import annotations

from typing import Literal

import msgspec

from loaderwatch.core.answers.basics import AlertState, Evidence, GainOf, Severity, Stack
from loaderwatch.core.answers.comparison import Judgement
from loaderwatch.core.message import Param, Text


class Folded(msgspec.Struct, frozen=True, kw_only=True):
    """A finding that another one explains. ``warned_s``: how long it had been an alert before."""

    key: str
    code: str
    scenario: str
    severity: Severity
    title: str  # ``title_text`` in English
    evidence: list[Evidence]
    began_at: float
    warned_s: float | None
    title_text: Text | None = None  # None from a server of an older version


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A later run of the same script that did what a finding's advice says, and its speed beside that of the finding's run."""

    run_id: str
    name: str
    measure: Literal["steps_per_s", "samples_per_s"]  # samples where a step has not as many in both
    before_per_s: float
    after_per_s: float
    promised_per_s: float | None  # at most, by gain_ceiling_ratio
    judgement: Judgement
    sentence: str  # ``sentence_text`` in English
    sentence_text: Text | None = None  # None from a server of an older version


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding and its alert, in ``GET /runs/{run}/findings``.

    ``recovering``: the detectors' last pass did not find it any more, and the alert is about to be resolved. ``followed``: only of runs that are over, and not in live events.
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
    rule: str = ""  # the id of the cause
    params: dict[str, Param] = {}
    frame: Text | None = None
    also: list[Text] = []
    silenced_until: float | None = None
    recovering: bool = False
    followed: Followed | None = None
