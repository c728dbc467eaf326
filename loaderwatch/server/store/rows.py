"""The rows of envelopes as arrays for inserting, and the time buckets that they touch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.core.columns import known_ns
from loaderwatch.core.records import TABLES, TIME_COLUMN, UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.facts import LOADER_BASE, RunFacts
from loaderwatch.server.store.metrics import LEVELS, SOURCES
from loaderwatch.server.store.schema import DERIVED

Arrays = dict[str, NDArray[Any]]

LOOKBACK_NS: Final = 5 * SECOND_NS
"""Steps longer than this are copied to the small table ``long_steps``. A query for steps that reach into a
bucket reads that table, and ``steps`` only this far back."""

EVENTS_COME_NS: Final = 5 * SECOND_NS
"""How long to wait for a batch's CUDA event. CUDA's launch queue holds at most a few seconds of work."""

MAX_TIME_NS: Final = 2**61
MAX_STEP_NS: Final = 28 * 3600 * SECOND_NS
"""Only the first 28 hours of a longer wait count in charts over time. The stored row is unchanged."""

_DURATIONS: Final = {
    name: [c.name for c in columns if c.dtype == "i8" and c.name.endswith("_ns")]
    for name, columns in TABLES.items()
}


def gather(envelopes: Sequence[Envelope], facts: RunFacts) -> dict[str, Arrays]:
    """Return the rows of all envelopes by table, with derived columns. ``facts`` must know the envelopes."""
    tables: dict[str, Arrays] = {}
    for name, columns in TABLES.items():
        parts = [(e.host.name, e.tables[name]) for e in envelopes if name in e.tables]
        parts = [(host, part) for host, part in parts if part[columns[0].name]]
        if not parts:
            continue
        arrays: Arrays = {
            c.name: np.frombuffer(
                b"".join([part[c.name] for _, part in parts]), dtype="<i8" if c.dtype == "i8" else "<f8"
            )
            for c in columns
        }
        if name == "hosts":
            arrays["host"] = np.array(
                [host for host, part in parts for _ in range(len(part["t_ns"]) // 8)], dtype=object
            )
        derive(name, arrays, facts)
        tables[name] = arrays
    return tables


def derive(name: str, arrays: Arrays, facts: RunFacts) -> None:
    """Add the store's derived columns to rows of a table. An existing ``counted`` is kept."""
    for column in _DURATIONS[name]:
        arrays[column] = _sane(arrays[column])
    if "counted" in DERIVED.get(name, ()) and "counted" not in arrays:
        arrays["counted"] = _counted(arrays, facts)
    if name == "steps":
        arrays["advance"] = _advance(arrays)


def _sane(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Replace negative or impossibly large times and durations by UNKNOWN, so that sums cannot overflow."""
    impossible = (values < 0) | (values > MAX_TIME_NS)
    return np.where(impossible, UNKNOWN, values) if impossible.any() else values


def _counted(arrays: Arrays, facts: RunFacts) -> NDArray[np.int64]:
    counted = np.ones(len(arrays["rank"]), dtype=bool)
    uncounted = facts.uncounted_loaders()
    if len(uncounted):
        counted &= ~np.isin(arrays["rank"] * LOADER_BASE + arrays["loader"], uncounted)
    if "off_main_thread" in arrays:
        counted &= arrays["off_main_thread"] != 1
    return counted.astype(np.int64)


def _advance(arrays: Arrays) -> NDArray[np.int64]:
    """Return how many training steps each row stands for."""
    optimizer_steps = arrays["optimizer_steps"]
    result: NDArray[np.int64] = np.where(optimizer_steps >= 0, np.minimum(optimizer_steps, 1000), 1)
    return result


def long_steps(steps: Arrays) -> Arrays | None:
    """Return the counted steps longer than LOOKBACK_NS; None if there is none."""
    begin, wait, step = steps["request_ns"], known_ns(steps["wait_ns"]), known_ns(steps["step_ns"])
    is_long = (wait + step > LOOKBACK_NS) & (begin != UNKNOWN) & (steps["counted"] == 1)
    if not is_long.any():
        return None
    wait = np.minimum(wait[is_long], MAX_STEP_NS)
    return {
        "rank": steps["rank"][is_long],
        "request_ns": begin[is_long],
        "wait_ns": wait,
        "step_ns": np.minimum(step[is_long], MAX_STEP_NS - wait),
    }


def first_time(envelope: Envelope) -> int:
    """Return the oldest time in an envelope's rows within a week before ``made_ns``, else ``made_ns``."""
    oldest = envelope.made_ns
    floor = oldest - 7 * 86400 * SECOND_NS
    for name, table in envelope.tables.items():
        times = np.frombuffer(table[TIME_COLUMN[name]], dtype="<i8")
        times = times[times > floor]
        if len(times):
            oldest = min(oldest, int(times.min()))
    return oldest


def touched_buckets(tables: dict[str, Arrays]) -> dict[str, set[int]]:
    """Return, for each source, where the finest level's buckets begin that the rows fall into."""
    width = LEVELS[0].ns
    touched: dict[str, set[int]] = {}
    for name, stretches in _touched(tables).items():
        buckets = touched[name] = set()
        for first, last in stretches:
            buckets.update(range(first * width, (last + 1) * width, width))
    return touched


def count_buckets(tables: dict[str, Arrays]) -> int:
    """Return how many of the finest level's buckets the rows fall into; they need no derived columns yet."""
    sane = {
        name: {column: _sane(arrays[column]) for column in _DURATIONS[name]}
        for name, arrays in tables.items()
    }
    return sum(last + 1 - first for stretches in _touched(sane).values() for first, last in stretches)


def _touched(tables: dict[str, Arrays]) -> dict[str, list[tuple[int, int]]]:
    """Return, for each source, the stretches of buckets with rows: numbers of the first and last bucket."""
    width = LEVELS[0].ns
    touched: dict[str, list[tuple[int, int]]] = {}
    for name, source in SOURCES.items():
        firsts, lasts = [], []
        for table in (source.table, source.completed_by):
            arrays = tables.get(table)
            if arrays is None:
                continue
            times = arrays[source.time]
            known = times != UNKNOWN
            times = times[known]
            firsts.append(times // width)
            reach = np.minimum(_reach(arrays)[known], MAX_STEP_NS) if source.spans else 0
            lasts.append((times + reach) // width)
        if firsts:
            touched[name] = _joined(np.concatenate(firsts), np.concatenate(lasts))
    return touched


def _joined(firsts: NDArray[np.int64], lasts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Merge inclusive ranges into disjoint stretches, since many rows may reach into the same buckets."""
    if not len(firsts):
        return []
    order = np.argsort(firsts)
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    begins = np.flatnonzero(np.append(True, firsts[1:] > lasts[:-1]))
    ends = np.append(begins[1:], len(firsts)) - 1
    return list(zip(firsts[begins].tolist(), lasts[ends].tolist(), strict=True))


def _reach(arrays: Arrays) -> NDArray[np.int64]:
    """Return how long after its request an iteration may last, as far as a row of either table shows."""
    if "wait_ns" in arrays:
        return known_ns(arrays["wait_ns"]) + known_ns(arrays["step_ns"])
    return known_ns(arrays["starved_ns"]) + EVENTS_COME_NS + known_ns(arrays["gpu_step_ns"])
