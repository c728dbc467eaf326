"""Two runs side by side: their settings and measurements; and one run with other settings."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from loaderwatch.core.answers.basics import RunStatus, Unit
from loaderwatch.core.message import Text


class LoaderSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a loader and their predicted speed, from ``least_per_s`` to ``most_per_s``."""

    num_workers: int
    prefetch_factor: int
    in_order: bool
    steps_per_s: float
    least_per_s: float
    most_per_s: float
    gain_ratio: float  # share of the run's time
    memory_bytes: int | None  # of the batches that are prefetched


class LoaderOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a loader, and the least and largest share of time that it saves; below 0, it costs time.

    ``per_epoch_s`` is what it saves per epoch at most, None for an option that affects each batch.
    ``rests_on`` is ``rests_on_text`` in English: what was measured.
    """

    change: str
    least_ratio: float
    most_ratio: float
    per_epoch_s: float | None
    rests_on: str
    rests_on_text: Text | None = None  # None from a server of an older version


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A loader of a rank with other settings: ``GET /runs/{run}/what-if``.

    ``workers`` differ only in ``num_workers``; ``knee`` is the fewest workers that are as good as any. The
    prediction rests on ``fetches`` measured fetches of ``fetch_s`` each, and a step of ``step_s``. The
    ``cpus`` are shared by loop and workers, None if not known; a reading worker keeps ``fetch_cpus`` of them
    busy. The ``free_bytes`` are free for batches, in ``free_in``.
    """

    rank: int
    loader: int
    name: str
    measured_per_s: float
    today: LoaderSetting
    workers: list[LoaderSetting]
    knee: int
    others: list[LoaderSetting]
    fetches: int
    fetch_s: float
    step_s: float
    cpus: float | None
    fetch_cpus: float
    options: list[LoaderOption]
    free_bytes: int | None
    free_in: str  # "memory" or "/dev/shm", the one with less free space


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
