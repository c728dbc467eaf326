"""Two runs side by side: differences in their settings and in their measurements."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loaderwatch.core.answers.basics import RunStatus, Unit
from loaderwatch.core.message import Text

Judgement: TypeAlias = Literal["better", "worse", "changed", "noise", "unknown"]
"""Of a difference: above the noise (``changed`` if neither is better), within it, or too little measured."""


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs. The compared part is ``seconds`` long and begins at ``began_at``."""

    run_id: str
    name: str
    state: RunStatus
    started_at: float
    began_at: float
    seconds: float
    world_size: int
    steps: int | None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that differs between the two. None: this run has no such setting."""

    where: str  # a loader's name, "process" or "machine"
    what: str
    a: str | None
    b: str | None


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over time with its 95 % interval, which is unknown for fewer than five ``values``."""

    mean: float
    low: float | None
    high: float | None
    values: int


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A measure of both runs. ``change`` is B minus A, relative to A's mean; for ratios, the difference."""

    measure: str
    label: str  # ``label_text`` in English
    unit: Unit
    a: Estimate | None
    b: Estimate | None
    change: float | None
    change_low: float | None
    change_high: float | None
    judgement: Judgement
    said: str  # the judgement in words: ``said_text`` in English
    label_text: Text | None = None  # None from a server of an older version
    said_text: Text | None = None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from run A to run B: ``GET /compare``."""

    a: ComparedRun
    b: ComparedRun
    title: str  # ``title_text`` in English
    judgement: Judgement  # of the speed
    notes: list[str]  # what limits the trust in the numbers: ``note_texts`` in English
    settings: list[Setting]
    measures: list[Difference]
    title_text: Text | None = None  # None from a server of an older version
    note_texts: list[Text] = []
