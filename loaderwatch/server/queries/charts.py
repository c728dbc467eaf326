"""Charts and other answers of the HTTP API from the store, in exactly the form of docs/http-api.md.

Times in and out are UTC seconds. An unusable value raises a ValueError that names it; an unknown run raises
UnknownRun. These functions block, so call them in a thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import answers
from loaderwatch.core.answers import Verdict
from loaderwatch.core.clock import SECOND_NS, wall_ns
from loaderwatch.core.from_records import from_records
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind
from loaderwatch.server.encoding import significant
from loaderwatch.server.live.summary import state_now, summary_of
from loaderwatch.server.recordings.stored_windows import StoredWindows
from loaderwatch.server.store.metrics import METRICS
from loaderwatch.server.store.protocol import MOST_EPOCH_ROWS, Series, Store

DEFAULT_POINTS: Final = 300
MAX_POINTS: Final = 2000
MAX_METRICS: Final = 16
MAX_LIMIT: Final = 20_000
MAX_SECONDS: Final = 4e9


def series(
    store: Store,
    run_id: str,
    metric: str,
    rank: int | None = None,
    start: float | None = None,
    end: float | None = None,
    points: int = DEFAULT_POINTS,
) -> answers.Series:
    """Answer ``GET /runs/{run}/series``: every bucket of the range has a value, ``None`` if empty."""
    return several_series(store, run_id, [metric], rank, start, end, points)[0]


def several_series(
    store: Store,
    run_id: str,
    metrics: Sequence[str],
    rank: int | None = None,
    start: float | None = None,
    end: float | None = None,
    points: int = DEFAULT_POINTS,
    attempt: int | None = None,
    digits: int | None = None,
) -> list[answers.Series]:
    """Answer ``GET /runs/{run}/series`` for several metrics; values have this many significant ``digits``."""
    check_count("metric", len(metrics), 1, MAX_METRICS)
    for metric in metrics:
        check_metric(metric)
    check_count("points", points, 2, MAX_POINTS)
    start_ns, end_ns = time_range(store, run_id, start, end, attempt)
    series_found = store.several_series(run_id, metrics, rank, start_ns, end_ns, points)
    return [
        _series_shape(metric, rank, values, start_ns, end_ns, digits)
        for metric, values in zip(metrics, series_found, strict=True)
    ]


def _series_shape(
    metric: str, rank: int | None, found: Series, start_ns: int, end_ns: int, digits: int | None
) -> answers.Series:
    width = found.bucket_ns
    begin = start_ns // width * width
    times = np.arange(begin, -(-end_ns // width) * width, width, dtype=np.int64)
    place = (found.t_ns - begin) // width
    return answers.Series(
        metric=metric,
        rank=rank,
        bucket_s=width / SECOND_NS,
        t=(times / SECOND_NS).tolist(),
        min=_spread(len(times), place, significant(found.low, digits)),
        mean=_spread(len(times), place, significant(found.mean, digits)),
        max=_spread(len(times), place, significant(found.high, digits)),
    )


def epochs(
    store: Store,
    run_id: str,
    rank: int | None = None,
    attempt: int | None = None,
    limit: int = MOST_EPOCH_ROWS,
) -> list[answers.Epoch]:
    """Answer ``GET /runs/{run}/epochs``."""
    begin_ns, end_ns = store.run(run_id).span_of(attempt)
    return [
        epoch_of(row)
        for row in store.epochs(run_id, rank, limit)
        if begin_ns <= (row["request_ns"] or 0) < end_ns
    ]


def epoch_of(row: dict[str, Any]) -> answers.Epoch:
    """Return an epoch from a row of ``Store.epochs``."""
    return from_records(
        answers.Epoch,
        row,
        began_at=row["request_ns"] / 1e9,
        ended_at=seconds(row["end_ns"]),
        iter_kind=_name(IterKind, row["iter_kind"]),
        ended_by=_name(EndedBy, row["ended_by"]),
    )


def fetches(
    store: Store,
    run_id: str,
    rank: int,
    start: float | None = None,
    end: float | None = None,
    limit: int = 2000,
    worker: int | None = None,
) -> answers.Fetches:
    """Answer ``GET /runs/{run}/fetches``."""
    check_count("limit", limit, 1, MAX_LIMIT)
    start_ns, end_ns = time_range(store, run_id, start, end)
    rows = store.fetches(run_id, rank, start_ns, end_ns, limit, worker)
    return answers.Fetches(
        loader=or_none(rows["loader"]),
        worker=or_none(rows["worker"]),
        began_at=(rows["request_ns"] / 1e9).tolist(),
        fetch_s=_seconds_column(rows["fetch_ns"]),
        collate_s=_seconds_column(rows["collate_ns"]),
        cpu_s=_seconds_column(rows["cpu_ns"]),
        samples=or_none(rows["samples"]),
        slow_index=or_none(rows["slow_index"]),
        slow_s=_seconds_column(rows["slow_ns"]),
        bytes=or_none(rows["bytes"]),
    )


def slow_samples(
    store: Store, run_id: str, rank: int | None = None, limit: int = 20
) -> list[answers.SlowSample]:
    """Answer ``GET /runs/{run}/slow-samples``."""
    check_count("limit", limit, 1, MAX_LIMIT)
    return [
        from_records(answers.SlowSample, row, index=row["slow_index"], at=row["request_ns"] / 1e9)
        for row in store.slow_samples(run_id, rank, limit)
    ]


def stored_summary(
    store: Store,
    run_id: str,
    verdict: Verdict | None = None,
    costs_s: Iterable[float | None] = (),
    attempt: int | None = None,
    windows: StoredWindows | None = None,
) -> answers.Summary:
    """Answer ``GET /runs/{run}/summary`` for a stored run or attempt: its last half minute and totals."""
    run = store.run(run_id)
    stored = (windows or StoredWindows(store)).of(run_id, attempt)
    earlier_attempt = next((a for a in run.earlier if a.number == attempt), None)
    return summary_of(
        stored.evidence,
        stored.totals,
        state=state_now(run, wall_ns()) if earlier_attempt is None else earlier_attempt.state,
        verdict=verdict,
        costs_s=costs_s,
        last_seen_ns=run.last_seen_ns if earlier_attempt is None else stored.window.now_ns,
        earlier=run.earlier,
        name=run.shown_name,
    )


# -- checks


def check_metric(metric: str) -> None:
    """Raise a ValueError if there is no such metric."""
    if metric not in METRICS:
        raise ValueError(f"metric is {metric[:80]!r}; use one of {', '.join(sorted(METRICS))}")


def check_count(name: str, value: int, least: int, most: int) -> None:
    """Raise a ValueError unless ``least <= value <= most``."""
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; use {least} to {most}")


def time_range(
    store: Store, run_id: str, start: float | None, end: float | None, attempt: int | None = None
) -> tuple[int, int]:
    """Return the requested range; a missing bound is the attempt's start or end."""
    for name, value in (("start", start), ("end", end)):
        if value is not None and not (math.isfinite(value) and 0 <= value <= MAX_SECONDS):
            raise ValueError(f"{name} is {value}; use UTC seconds")
    first_ns, last_ns = store.bounds(run_id)
    began_ns, ended_ns = store.run(run_id).span_of(attempt)
    first_ns, last_ns = max(first_ns, began_ns), min(last_ns, ended_ns - 1)
    start_ns = first_ns if start is None else int(start * 1e9)
    end_ns = last_ns + 1 if end is None else int(end * 1e9)
    if start is not None and end is not None and end <= start:
        raise ValueError(f"end is {end}; use a time after start, which is {start}")
    return start_ns, max(end_ns, start_ns + 1)


# -- shapes


def _spread(length: int, at: NDArray[np.int64], values: NDArray[np.float64]) -> list[float | None]:
    row = np.full(length, np.nan)
    fits = (at >= 0) & (at < length)
    row[at[fits]] = values[fits]
    result: list[float | None] = or_none(row)
    return result


def or_none(values: NDArray[Any]) -> list[Any]:
    """Return an array as lists, with None for unknown values."""
    missing = values == UNKNOWN if values.dtype.kind == "i" else ~np.isfinite(values)
    if not missing.any():
        plain: list[Any] = values.tolist()
        return plain
    boxed = values.astype(object)
    boxed[missing] = None
    result: list[Any] = boxed.tolist()
    return result


def _seconds_column(values: NDArray[np.int64]) -> list[float | None]:
    return or_none(np.where(values == UNKNOWN, np.nan, values / 1e9))


def seconds(value: int | None) -> float | None:
    """Return nanoseconds as seconds; None if unknown."""
    return None if value is None else value / 1e9


def _name(kind: type[IterKind] | type[EndedBy], value: int | None) -> str | None:
    if value is None:
        return None
    try:
        return kind(value).name.lower()
    except ValueError:
        return None  # a newer agent sent a code unknown here
