"""Slices of a loader's recent past, from which its course over the run is built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Final

import numpy as np

from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.threshold import threshold
from loaderwatch.detect.loader_history import Course
from loaderwatch.detect.measures.pace import Pace
from loaderwatch.detect.measures.statistics import FEW_FOR_DRIFT, Floats, known, mean, median

FEW_ROWS: Final = threshold(3, "rows", "chosen: fewer batches or fetches give no typical value")
OUTLIER_FACTOR: Final = threshold(
    4.0, "factor", "chosen: times the median; larger values are cut: one of twelve seconds is no drift"
)
COURSE_BLOCKS: Final = threshold(
    8, "blocks", "chosen: of equal length, for comparison; single seconds vary much on a busy machine"
)


def typical(values: Floats) -> float:
    """Return the mean of the known values, each cut at four medians; NaN for less than three values."""
    values = known(values)
    if values.size < FEW_ROWS:
        return float("nan")
    return mean(np.minimum(values, OUTLIER_FACTOR * float(np.median(values))))


def parts(course: Course) -> Iterator[Course]:
    """Yield the course, its newer half and its newest quarter, if they are long enough to show a drift.

    A change may have begun recently.
    """
    if course.t_ns.size < FEW_FOR_DRIFT:
        return
    sizes = (course.t_ns.size // part for part in (1, 2, 4))
    for size in dict.fromkeys(max(FEW_FOR_DRIFT, size) for size in sizes):
        yield course.newest(size)


def ends(values: Floats) -> tuple[float, float]:
    """Return the first and the last of the ``blocks`` without computing the others."""
    oldest, *_, newest = np.array_split(values, COURSE_BLOCKS)
    return median(oldest), median(newest)


def blocks(values: Floats) -> Floats:
    """Return the medians of ``COURSE_BLOCKS`` blocks, oldest first: single seconds vary on a busy machine."""
    return np.array([median(part) for part in np.array_split(values, COURSE_BLOCKS)])


def slices_of(pace: Pace, slice_ns: int, from_ns: int, until_ns: int) -> Course:
    """Return the course of a pace between two times (ns UTC) in slices of a length, without empty slices."""
    edges = np.arange(from_ns, until_ns - slice_ns + 1, slice_ns, dtype=np.int64)
    step_s = pace.step_s + pace.nested_s
    script_s, headroom_s = pace.step_s - pace.phases_s, pace.headroom_s
    requested, fetched = pace.request_ns, pace.fetches.ended_ns
    order = np.argsort(fetched, kind="stable")
    fetched = fetched[order]
    fetch_s, cpu_s, sizes = (
        values[order] for values in (pace.fetches.fetch_s, pace.fetches.cpu_s, pace.fetches.bytes)
    )
    rows = []
    for began_ns in edges.tolist():
        batches = slice(*np.searchsorted(requested, (began_ns, began_ns + slice_ns)).tolist())
        fetches = slice(*np.searchsorted(fetched, (began_ns, began_ns + slice_ns)).tolist())
        own_s = typical(step_s[batches])
        if not np.isfinite(own_s):
            continue
        rows.append(
            (
                began_ns + slice_ns // 2,
                int(pace.epoch[batches].max(initial=UNKNOWN)),
                own_s,
                typical(script_s[batches]),
                typical(pace.model_s[batches]),
                typical(pace.optimizer_s[batches]),
                typical(fetch_s[fetches]),
                typical(cpu_s[fetches]),
                typical(sizes[fetches]),
                typical(headroom_s[batches]),
            )
        )
    columns = list(zip(*rows, strict=True)) or [()] * (len(fields(Course)) - 1)
    return Course(
        slice_ns,
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        *(np.array(column, dtype=np.float64) for column in columns[2:]),
    )
