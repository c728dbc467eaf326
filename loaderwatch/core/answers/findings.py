"""Findings and their alerts."""

from __future__ import annotations

from typing import Literal

import msgspec

from loaderwatch.core.answers.basics import AlertState, Evidence, GainOf, Severity, Stack
from loaderwatch.core.answers.comparison import Judgement
from loaderwatch.core.message import Param, Text


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every finding: from a rule, in a store, in an HTTP answer, or folded."""

    key: str
    code: str  # the heading in docs/detectors.md: "input-bound", "epoch-boundary", "hung"
    scenario: str  # the scenario's id, "S02"
    severity: Severity  # "info" never alerts
    evidence: list[Evidence] = []


class Concluded(Named, frozen=True, kw_only=True):
    """The fields of a finding that is not folded under another one."""

    confidence: float  # 0 to 1
    rule: str = ""  # the id that names the cause: "too-few-workers"
    params: dict[str, Param] = {}
    frame: Text | None = None
    also: list[Text] = []
    rank: int | None = None
    host: str | None = None
    loader: int | None = None  # its number, where the finding is about one loader
    worker: int | None = None
    pid: int | None = None
    sample_indices: list[int] = []
    lost_s: float | None = None  # training time lost since it began
    gain_ceiling_ratio: float | None = None  # at most this share of the time in ``gain_of`` can be won back
    gain_of: GainOf = "finding"  # the time while the finding lasts, or the whole run


class Folded(Named, frozen=True, kw_only=True):
    """A finding that another one explains. ``warned_s``: how long it was an alert before that."""

    title: str  # ``title_text`` in English
    began_at: float
    warned_s: float | None
    title_text: Text | None = None  # None from a server of an older version


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A later run of the same script that followed a finding's advice, and the speeds before and after."""

    run_id: str
    name: str
    measure: Literal["steps_per_s", "samples_per_s"]  # samples if the runs' batch sizes differ
    before_per_s: float
    after_per_s: float
    promised_per_s: float | None  # at most, by gain_ceiling_ratio
    judgement: Judgement
    sentence: str  # ``sentence_text`` in English
    sentence_text: Text | None = None  # None from a server of an older version


class Finding(Concluded, frozen=True, kw_only=True):
    """A finding and its alert, in ``GET /runs/{run}/findings``.

    ``recovering``: the detectors' last pass no longer found it, and the alert will soon be resolved.
    ``followed``: only for runs that are over, and not in live events.
    """

    id: str
    state: AlertState
    began_at: float
    ended_at: float | None
    title: str
    cause: str
    advice: str
    stacks: list[Stack]
    folded: list[Folded] = []
    silenced_until: float | None = None
    recovering: bool = False
    followed: Followed | None = None
