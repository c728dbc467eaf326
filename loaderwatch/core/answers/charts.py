"""The data of charts: series, heat maps, epochs, fetches."""

from __future__ import annotations

import msgspec


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """A metric over time: ``t``, ``min``, ``mean`` and ``max`` have one value per bucket."""

    metric: str
    rank: int | None
    bucket_s: float
    t: list[float]
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class Heatmap(msgspec.Struct, frozen=True, kw_only=True):
    """A metric over time, a row of ``values`` per rank or host, shape (ranks, t).

    A host's row has in each bucket the worst value of its ranks, and in ``ranks`` the rank that is worst on
    average. The ``hosts`` are the rows' hosts; ``of`` is the number of requested rows that exist.
    """

    metric: str
    bucket_s: float
    ranks: list[int]
    t: list[float]
    values: list[list[float | None]]
    hosts: list[str] = []
    of: int = 0


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """An epoch of a loader and what its boundaries cost."""

    rank: int
    loader: int
    epoch: int
    began_at: float
    iter_s: float | None
    sampler_s: float | None
    first_wait_s: float | None
    iter_kind: str | None
    workers: int | None
    drained: int | None
    gap_s: float | None
    ended_at: float | None
    teardown_s: float | None
    batches: int | None
    ended_by: str | None


class Fetches(msgspec.Struct, frozen=True, kw_only=True):
    """Fetches of a rank's workers, as columns of one length."""

    loader: list[int]
    worker: list[int]
    began_at: list[float]
    fetch_s: list[float | None]
    collate_s: list[float | None]
    cpu_s: list[float | None]
    samples: list[int | None]
    slow_index: list[int | None]
    slow_s: list[float | None]
    bytes: list[int | None]


class SlowSample(msgspec.Struct, frozen=True, kw_only=True):
    """The slowest reading of a dataset index."""

    rank: int
    loader: int
    worker: int
    index: int
    slow_s: float
    fetch_s: float | None
    at: float
