"""What a stored run is compared by: its measures over its time, its epochs and its settings."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from loaderwatch.advise.comparison.compare import Observed
from loaderwatch.advise.comparison.measures import MEASURES, SPEED
from loaderwatch.core.answers import ComparedRun
from loaderwatch.core.from_records import from_records
from loaderwatch.detect.measures.statistics import Floats
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.store.protocol import Series, Store, StoredRun

STRETCHES: Final = 60
"""Most stretches of time that a run is cut into."""
_WARM_UP_RATIO: Final = 0.1
_WARM_UP_MOST_S: Final = 60.0
"""What is left out at the beginning: workers start, caches fill, compilers and autotuners try things out."""


def observed(store: Store, run_id: str) -> Observed:
    """Return what is known of the newest attempt of a run, without its beginning.

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
        values={name: each for name, each in values.items() if np.isfinite(each).any()},
        processes=run.processes,
        hosts=run.hosts,
        gpus=run.gpus,
    )


def _values(found: Series, begin_ns: int, end_ns: int, *, highest: bool, gaps: bool) -> Floats:
    """Return a value for each stretch that lies wholly within the time; with ``gaps`` one without any row is 0."""
    width = found.bucket_ns
    times = np.arange(-(-begin_ns // width) * width, end_ns // width * width, width, dtype=np.int64)
    values = np.full(len(times), 0.0 if gaps and len(found.t_ns) else np.nan)
    if not len(times):
        return values
    at = (found.t_ns - times[0]) // width
    fits = (at >= 0) & (at < len(times))
    values[at[fits]] = (found.high if highest else found.mean)[fits]
    return values


def _epochs(run: StoredRun, rows: Iterable[dict[str, Any]], since_ns: int) -> dict[str, Floats]:
    """Return what the boundaries of the training loaders' epochs took, each as a mean over the ranks."""
    train = {
        (process.rank, loader.loader)
        for process in run.processes
        for loader in process.loaders
        if loader.role == "train"
    }
    numbers: dict[tuple[int, int], int] = {}
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        key = (row["rank"], row["loader"])
        if key not in train or (row["request_ns"] or 0) < since_ns:
            continue
        number = numbers[key] = numbers.get(key, -1) + 1
        began = _sum_s(row["iter_ns"], row["first_wait_ns"])
        _note(found, "epoch_start_s" if number else "startup_s", number, began)
        if number:  # what lies before the first epoch is no gap between two
            _note(found, "epoch_gap_s", number, _sum_s(row["gap_ns"]))
        _note(found, "teardown_s", number, _sum_s(row["teardown_ns"]))
    return {
        name: np.array([float(np.mean(values[number])) for number in sorted(values)])
        for name, values in found.items()
    }


def _sum_s(*parts: int | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) / 1e9 if known else None


def _note(found: dict[str, dict[int, list[float]]], name: str, number: int, value: float | None) -> None:
    if value is not None:
        found.setdefault(name, {}).setdefault(number, []).append(value)
