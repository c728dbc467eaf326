"""Predictions for other settings of a loader."""

from __future__ import annotations

import msgspec

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
