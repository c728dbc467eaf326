"""What other settings of a loader would give."""

from __future__ import annotations

import msgspec

from loaderwatch.core.message import Text


class LoaderSetting(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a loader and the speed that they would give: ``steps_per_s`` between ``least_per_s`` and ``most_per_s``."""

    num_workers: int
    prefetch_factor: int
    in_order: bool
    steps_per_s: float
    least_per_s: float
    most_per_s: float
    gain_ratio: float  # share of the run's time
    memory_bytes: int | None  # of the batches that are read ahead


class LoaderOption(msgspec.Struct, frozen=True, kw_only=True):
    """An option of a loader, and the shares of the run's time that it saves at least and at most; below 0 where it costs some.

    ``per_epoch_s`` is what it saves of an epoch at most, null for what acts on each batch; ``rests_on`` says what was measured:
    ``rests_on_text`` in English.
    """

    change: str
    least_ratio: float
    most_ratio: float
    per_epoch_s: float | None
    rests_on: str
    rests_on_text: Text | None = None  # None from a server of an older version


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """A loader of a rank with other settings: ``GET /runs/{run}/what-if``.

    ``workers`` differ in ``num_workers`` alone; ``knee`` is the fewest of them that are as good as any. What it rests on:
    ``fetches`` that were measured, of ``fetch_s`` each, and a step of ``step_s``; ``cpus`` that loop and workers share, null
    where not known, of which a worker that reads keeps ``fetch_cpus`` busy. ``free_bytes`` are free for batches, in ``free_in``.
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
    free_in: str  # "memory" or "/dev/shm", whichever has less
