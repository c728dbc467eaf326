"""Queries for charts (series and heat maps) on a snapshot of a run's file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.clock import SECOND_NS
from loaderwatch.server.store.metrics import LEVELS, METRICS, SOURCES, Metric, bucket_width_ns
from loaderwatch.server.store.protocol import Grid, Series
from loaderwatch.server.store.sql import data_wait, others_wait, rollup
from loaderwatch.server.store.sql.snapshot import Snapshot

ROWS_LIMIT: Final = 1_000_000
"""A chart reads rows up to about this many in its range, and beyond that rollups, whose buckets are wider.
DuckDB sums a million rows in about 30 ms on two cores."""

ONE_KEY_FACTOR: Final = 8
"""How many times more rows may be read for a single rank: the others are filtered out, not summed."""

CELLS_LIMIT: Final = 400_000

OWN_RULES: Final = ("device_mean", "device_share", "others")
"""Kinds of metrics that need more than sums of a rank's rows."""


def count_rows(snapshot: Snapshot, table: str) -> int:
    """Return how many rows a table has. DuckDB knows this without reading them."""
    row = snapshot.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(row[0]) if row else 0


def _plan(
    snapshot: Snapshot,
    metric: Metric,
    start_ns: int,
    end_ns: int,
    bounds: tuple[int, int],
    points: int,
    one_key: bool,
    keys_known: int,
) -> tuple[int, int]:
    """Return the bucket width, and the level to read (-1: the rows)."""
    share_of_run = min(1.0, (end_ns - start_ns) / max(1, bounds[1] - bounds[0]))
    limit = ROWS_LIMIT * (ONE_KEY_FACTOR if one_key else 1)
    rows = count_rows(snapshot, SOURCES[metric.source].table)
    least_width_ns = SOURCES[metric.source].least_width_ns
    if metric.kind == "rate":  # with few events per bucket the rate flickers between none and one
        least_width_ns = max(SECOND_NS, 3 * keys_known * (bounds[1] - bounds[0]) // max(1, rows))
    elif metric.kind in ("share", "device_share"):
        least_width_ns = SECOND_NS
    width = bucket_width_ns(start_ns, end_ns, points, least_width_ns)
    level = max((index for index, level_of in enumerate(LEVELS) if level_of.ns <= width), default=-1)
    if level == 0 and rows * share_of_run <= limit / 4:
        return width, -1  # few enough rows to read without a rollup
    while level < len(LEVELS) - 1:
        table = SOURCES[metric.source].table if level < 0 else LEVELS[level].table(metric.source)
        if count_rows(snapshot, table) * share_of_run <= limit:
            break
        level += 1
        width = bucket_width_ns(start_ns, end_ns, points, max(least_width_ns, LEVELS[level].ns))
    return width, level


def _pieces(
    snapshot: Snapshot,
    metric: Metric,
    begin: int,
    end: int,
    level: int,
    open_waits: Sequence[rollup.OpenWait],
) -> list[rollup.Piece]:
    dirty = rollup.load_dirty(snapshot)
    if metric.kind == "device_share":
        dirty = rollup.with_open_waits(dirty, open_waits)
    return rollup.pieces(begin, end, level, metric.source, dirty)


def _partials(
    metrics: Sequence[Metric],
    pieces: list[rollup.Piece],
    width_ns: int,
    keys: list[Any] | None,
    keyed: bool = True,
) -> str:
    """Return the SQL of partial sums; ``keyed`` false leaves the key out.

    One share or rate: (key, t, num, rest). Means of a source: (key, t, n0, total0, low0, high0, n1, …).
    """
    name = metrics[0].source
    parts = []
    for piece in pieces:
        if piece.level is None:
            parts.append(_from_rows(metrics, piece, width_ns, keys, keyed))
            continue
        parts.append(
            f"SELECT key, t_ns // {width_ns} * {width_ns} AS t, {_from_level(metrics)} "
            f"FROM {piece.level.table(name)} "
            f"WHERE {piece.holds('t_ns')}{_only(keys, 'key')}"
        )
    return " UNION ALL ".join(parts)


def _keyed_partials(
    snapshot: Snapshot,
    metric: Metric,
    pieces: list[rollup.Piece],
    width_ns: int,
    level: int,
    bounds: tuple[int, int],
    keys: list[Any] | None,
) -> str:
    """Return the SQL of partial sums. A rate has 0 for each full bucket in which a process lived."""
    partials = _partials([metric], pieces, width_ns, keys)
    if metric.kind != "rate":
        return partials
    begin = min(piece.start_ns for piece in pieces)
    end = min(max(piece.end_ns for piece in pieces), bounds[1] // width_ns * width_ns)
    alive = SOURCES["trainers"]
    zeros = []
    for piece in rollup.pieces(begin, end, level, "trainers", rollup.load_dirty(snapshot)):
        table, key, time, where = (
            (alive.table, alive.key, alive.time, f"({alive.where})")
            if piece.level is None
            else (piece.level.table("trainers"), "key", "t_ns", "true")
        )
        zeros.append(
            f"SELECT DISTINCT {key} AS key, {time} // {width_ns} * {width_ns} AS t, 0 AS num, 0 AS rest "
            f"FROM {table} WHERE {where} AND {piece.holds(time)}{_only(keys, key)}"
        )
    return " UNION ALL ".join([partials, *zeros])


def _from_level(metrics: Sequence[Metric]) -> str:
    first = metrics[0]
    if first.kind == "mean":
        return ", ".join(
            f"{m.of}_n AS n{i}, {m.of}_sum AS total{i}, {m.of}_min AS low{i}, {m.of}_max AS high{i}"
            for i, m in enumerate(metrics)
        )
    if first.kind == "rate":
        return f"{first.of}_sum AS num, 0 AS rest"
    return f"{first.of}_sum AS num, {first.rest}_sum AS rest"


def _from_rows(
    metrics: Sequence[Metric], piece: rollup.Piece, width_ns: int, keys: list[Any] | None, keyed: bool
) -> str:
    metric = metrics[0]
    source = SOURCES[metric.source]
    if metric.kind == "mean":
        values = [f"({source.measures[m.of]})::DOUBLE" for m in metrics]
        picked = ", ".join(
            f"count({v}) AS n{i}, sum({v}) AS total{i}, min({v}) AS low{i}, max({v}) AS high{i}"
            for i, v in enumerate(values)
        )
    elif metric.kind == "rate":
        picked = f"sum(({source.measures[metric.of]})::DOUBLE) AS num, 0 AS rest"
    else:
        picked = (
            f"sum(({source.measures[metric.of]})::DOUBLE) AS num, "
            f"sum(({source.measures[metric.rest]})::DOUBLE) AS rest"
        )
    key = source.key if keyed else "0"
    return (
        f"SELECT {key} AS key, {source.time} // {width_ns} * {width_ns} AS t, {picked} FROM {source.table} "
        f"WHERE ({source.where}) AND {piece.holds(source.time)}{_only(keys, source.key)} GROUP BY ALL"
    )


def _only(keys: list[Any] | None, column: str) -> str:
    if keys is None:
        return ""
    if not keys:
        return " AND false"
    listed = ", ".join("'" + k.replace("'", "''") + "'" if isinstance(k, str) else str(int(k)) for k in keys)
    return f" AND {column} IN ({listed})"


def _share(part: str, whole: str) -> str:
    """Return the SQL of a ratio from 0 to 1, NULL for an empty whole (``least``, ``greatest`` skip NULL)."""
    return f"CASE WHEN {whole} > 0 THEN least(1, greatest(0, {part} / ({whole}))) END"


def _per_key(metric: Metric, partials: str, width_ns: int, bounds: tuple[int, int]) -> str:
    """Return the SQL of (key, t, low, value, high, num, whole) of a share or rate."""
    if metric.kind == "share":
        value = _share("sum(num)", "sum(num) + sum(rest)")
        return (
            f"SELECT key, t, {value} AS low, {value} AS value, {value} AS high, "
            f"sum(num) AS num, sum(num) + sum(rest) AS whole FROM ({partials}) GROUP BY key, t"
        )
    first, last = bounds
    covered = f"(greatest({SECOND_NS // 10}, least(t + {width_ns}, {last}) - greatest(t, {first})) / 1e9)"
    return (
        f"SELECT key, t, sum(num) / {covered} AS low, low AS value, low AS high, "
        f"sum(num) AS num, NULL AS whole FROM ({partials}) GROUP BY key, t"
    )


def _per_rank(
    snapshot: Snapshot,
    metric: Metric,
    begin: int,
    end: int,
    width_ns: int,
    level: int,
    bounds: tuple[int, int],
    ranks: Sequence[int] | None,
    open_waits: Sequence[rollup.OpenWait],
    attempts_ns: Sequence[int],
) -> str:
    """Return the SQL of (key, t, low, value, high, num, whole) of a metric in ``OWN_RULES``."""
    if metric.kind == "others":
        return others_wait.per_rank(snapshot, others_wait.Asked(begin, end, width_ns, ranks, attempts_ns))
    asked = data_wait.Range(
        _pieces(snapshot, metric, begin, end, level, ()), width_ns, ranks, newest_ns=bounds[1]
    )
    with_open = _pieces(snapshot, metric, begin, end, level, open_waits)
    return data_wait.per_rank(snapshot, metric, asked, with_open, open_waits)


def series(
    snapshot: Snapshot,
    metric_names: Sequence[str],
    keys: list[Any] | None,
    start_ns: int,
    end_ns: int,
    bounds: tuple[int, int],
    points: int,
    keys_known: int,
    open_waits: Sequence[rollup.OpenWait] = (),
    attempts_ns: Sequence[int] = (),
) -> list[Series]:
    """Return metrics of one source over time, for some keys (None: all ``keys_known``).

    Several metrics must all be means; they are read in one query.
    """
    metrics = [METRICS[name] for name in metric_names]
    metric = metrics[0]
    width, level = _plan(
        snapshot, metric, start_ns, end_ns, bounds, points, keys is not None and len(keys) == 1, keys_known
    )
    begin, end = start_ns // width * width, -(-end_ns // width) * width
    pieces = _pieces(snapshot, metric, begin, end, level, open_waits)
    if not pieces:
        empty = np.empty(0, dtype=np.float64)
        return [Series(width, np.empty(0, dtype=np.int64), empty, empty, empty)] * len(metrics)
    if metric.kind == "mean":
        partials = _partials(metrics, pieces, width, keys, keyed=False)
        picked = ", ".join(
            f"min(low{n}) AS low{n}, sum(total{n}) / sum(n{n}) AS mean{n}, max(high{n}) AS high{n}"
            for n in range(len(metrics))
        )
        sql = f"SELECT t, {picked} FROM ({partials}) GROUP BY t ORDER BY t"
    else:
        if metric.kind == "rate":
            mean = "avg(value)"
        elif metric.kind in ("device_mean", "others"):
            mean = "sum(num) / sum(whole)"
        else:
            mean = _share("sum(num)", "sum(whole)")
            mean = f"1 - ({mean})" if metric.complement else mean
        if metric.kind in OWN_RULES:
            per_key = _per_rank(
                snapshot, metric, begin, end, width, level, bounds, keys, open_waits, attempts_ns
            )
        else:
            partials = _keyed_partials(snapshot, metric, pieces, width, level, bounds, keys)
            per_key = _per_key(metric, partials, width, bounds)
        sql = (
            f"SELECT t, min(low) AS low0, {mean} AS mean0, max(high) AS high0 "
            f"FROM ({per_key}) WHERE value IS NOT NULL GROUP BY t ORDER BY t"
        )
    fetched = snapshot.execute(sql).fetchnumpy()
    times = np.asarray(fetched["t"], dtype=np.int64)
    result = []
    for n, metric_of in enumerate(metrics):
        means = floats(fetched[f"mean{n}"])
        known = ~np.isnan(means)
        low, high = floats(fetched[f"low{n}"]), floats(fetched[f"high{n}"])
        scale = metric_of.scale
        result.append(
            Series(width, times[known], low[known] * scale, means[known] * scale, high[known] * scale)
        )
    return result


def grid(
    snapshot: Snapshot,
    metric_name: str,
    rank_keys: dict[int, Any],
    start_ns: int,
    end_ns: int,
    bounds: tuple[int, int],
    points: int,
    open_waits: Sequence[rollup.OpenWait] = (),
    attempts_ns: Sequence[int] = (),
) -> Grid:
    """Return one metric over time, a row per rank. ``rank_keys`` maps ranks to the source's keys."""
    metric = METRICS[metric_name]
    ranks = sorted(rank_keys)
    points = max(2, min(points, CELLS_LIMIT // max(1, len(ranks))))
    width, level = _plan(snapshot, metric, start_ns, end_ns, bounds, points, False, len(ranks))
    begin, end = start_ns // width * width, -(-end_ns // width) * width
    times = np.arange(begin, end, width, dtype=np.int64)
    values = np.full((len(ranks), len(times)), np.nan)
    pieces = _pieces(snapshot, metric, begin, end, level, open_waits)
    if pieces and ranks:
        if metric.kind == "mean":
            partials = _partials([metric], pieces, width, None)
            sql = (
                f"SELECT key, t, sum(total0) / sum(n0) AS value FROM ({partials}) "
                "GROUP BY key, t HAVING sum(n0) > 0"
            )
        else:
            if metric.kind in OWN_RULES:
                per_key = _per_rank(
                    snapshot, metric, begin, end, width, level, bounds, None, open_waits, attempts_ns
                )
            else:
                partials = _keyed_partials(snapshot, metric, pieces, width, level, bounds, None)
                per_key = _per_key(metric, partials, width, bounds)
            sql = f"SELECT key, t, value FROM ({per_key}) WHERE value IS NOT NULL"
        fetched = snapshot.execute(sql).fetchnumpy()
        column = (np.asarray(fetched["t"], dtype=np.int64) - begin) // width
        cell_values = floats(fetched["value"]) * metric.scale
        keys = np.asarray(fetched["key"])
        if SOURCES[metric.source].key == "rank":
            order = np.array(ranks, dtype=np.int64)
            row = np.searchsorted(order, keys)
            is_known = (row < len(order)) & (order[np.minimum(row, len(order) - 1)] == keys)
            values[row[is_known], column[is_known]] = cell_values[is_known]
        else:
            for row_index, rank in enumerate(ranks):
                of_rank = keys == rank_keys[rank]
                values[row_index, column[of_rank]] = cell_values[of_rank]
    return Grid(width, times, np.array(ranks, dtype=np.int64), values)


def floats(values: Any) -> NDArray[np.float64]:
    """Return a fetched column as float64, with NaN for NULL."""
    result: NDArray[np.float64] = np.ma.filled(np.ma.asarray(values, dtype=np.float64), np.nan)
    return result
