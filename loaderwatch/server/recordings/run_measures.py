"""The measures by which stored runs are compared: over time, over epochs, and their settings."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from loaderwatch.advise.comparison.compare import MEASURES, SPEED, Observed
from loaderwatch.core.answers import ComparedRun
from loaderwatch.core.from_records import from_records
from loaderwatch.detect.measures.statistics import Floats
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.store.protocol import Series, Store, StoredRun

STRETCHES: Final = 60
"""How many stretches of time a run is divided into at most."""
_WARM_UP_RATIO: Final = 0.1
_WARM_UP_MOST_S: Final = 60.0
"""The beginning is left out: workers start, caches fill, compilers and autotuners try settings."""


def observed(store: Store, run_id: str) -> Observed:
    """Return the measures of a run's newest attempt without its beginning.

    Raises:
        UnknownRun, StoreError
    """
    run = store.run(run_id)
    first_ns, last_ns = store.bounds(run_id)
    first_ns = max(first_ns, run.span_of(None)[0])
    whole_ns = max(1, last_ns - first_ns)
    begin_ns = first_ns + int(min(_WARM_UP_MOST_S * 1e9, _WARM_UP_RATIO * whole_ns))
    wanted = list(dict.fromkeys(measure.series for measure in MEASURES.values() if measure.series))
    series = dict(
        zip(wanted, store.several_series(run_id, wanted, None, begin_ns, last_ns, STRETCHES), strict=True)
    )
    values = {
        name: _values(series[measure.series], begin_ns, last_ns, highest=measure.highest, gaps=name == SPEED)
        for name, measure in MEASURES.items()
        if measure.series and not (measure.highest and run.world_size < 2)
    }
    values |= _epochs(run, store.epochs(run_id, None), first_ns)
    return Observed(
        run=from_records(
            ComparedRun,
            run,
            name=run.shown_name,
            state=state_now(run, time.time_ns()),
            began_at=begin_ns / 1e9,
            seconds=max(0.0, (last_ns - begin_ns) / 1e9),
        ),
        values={name: array for name, array in values.items() if np.isfinite(array).any()},
        processes=run.processes,
        hosts=run.hosts,
        gpus=run.gpus,
    )


def _values(series: Series, begin_ns: int, end_ns: int, *, highest: bool, gaps: bool) -> Floats:
    """Return a value per whole stretch in the range. ``gaps``: a stretch without rows is 0."""
    width = series.bucket_ns
    times = np.arange(-(-begin_ns // width) * width, end_ns // width * width, width, dtype=np.int64)
    values = np.full(len(times), 0.0 if gaps and len(series.t_ns) else np.nan)
    if not len(times):
        return values
    indices = (series.t_ns - times[0]) // width
    fits = (indices >= 0) & (indices < len(times))
    values[indices[fits]] = (series.high if highest else series.mean)[fits]
    return values


def _epochs(run: StoredRun, rows: Iterable[dict[str, Any]], since_ns: int) -> dict[str, Floats]:
    """Return the durations of training loaders' epoch boundaries, each a mean over the ranks."""
    train = {
        (process.rank, loader.loader)
        for process in run.processes
        for loader in process.loaders
        if loader.role == "train"
    }
    numbers: dict[tuple[int, int], int] = {}
    measures: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        key = (row["rank"], row["loader"])
        if key not in train or (row["request_ns"] or 0) < since_ns:
            continue
        number = numbers[key] = numbers.get(key, -1) + 1
        start_s = _sum_s(row["iter_ns"], row["first_wait_ns"])
        _note(measures, "epoch_start_s" if number else "startup_s", number, start_s)
        if number:  # the time before the first epoch is no gap
            _note(measures, "epoch_gap_s", number, _sum_s(row["gap_ns"]))
        _note(measures, "teardown_s", number, _sum_s(row["teardown_ns"]))
    return {
        name: np.array([float(np.mean(values[number])) for number in sorted(values)])
        for name, values in measures.items()
    }


def _sum_s(*parts: int | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) / 1e9 if known else None


def _note(measures: dict[str, dict[int, list[float]]], name: str, number: int, value: float | None) -> None:
    if value is not None:
        measures.setdefault(name, {}).setdefault(number, []).append(value)
