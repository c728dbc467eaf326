"""Data wait over time, by each rank's clock: the device's if enough CUDA events are known, else the loop's.

The rule is that of ``detect.device_clock``, on sums instead of rows. A rank has one clock over a whole
chart. A batch without an event gets the hidden share of the rank's other batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from loaderwatch.core.wait_rules import KNOWN_RATIO
from loaderwatch.server.store.metrics import SOURCES, SPANS, Metric, Source
from loaderwatch.server.store.rows import EVENTS_COME_NS
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.snapshot import Snapshot

_STEPS: Final = SOURCES["steps"]
_MEASURES: Final = ("wait_ns", "step_ns", "lost_ns", "hidden_ns", "ready")
_OF_ROWS: Final = replace(_STEPS, measures={name: _STEPS.measures[name] for name in _MEASURES}, spans=False)
_OF_SPANS: Final = replace(_STEPS, measures={})


@dataclass(frozen=True)
class Clock:
    """What the device's clock shows about a rank in an interval."""

    rank: int
    since_ns: int  # the bucket of the first batch with an event; the rank did not use the device before
    hidden_ratio: float  # share of its waits in which the device still had work
    hidden_ns: float  # the same, in ns per batch


@dataclass(frozen=True)
class Range:
    """What a chart reads: pieces of rows and rollups, for some ranks (None: all), in buckets."""

    pieces: Sequence[rollup.Piece]
    width_ns: int
    ranks: Sequence[int] | None
    newest_ns: int  # of the run


def clocks(snapshot: Snapshot, asked: Range) -> list[Clock]:
    """Return the ranks for which the device's clock counts: enough batches since the first event have one."""
    if not asked.pieces or snapshot.execute("SELECT 1 FROM gpu_waits LIMIT 1").fetchone() is None:
        return []
    rows = snapshot.execute(
        f"""
        SELECT key, since, sum(hidden) AS hidden, sum(hidden) + sum(lost) AS waited, sum(told) AS told FROM (
          SELECT *, min(t) FILTER (WHERE told > 0) OVER (PARTITION BY key) AS since FROM (
            SELECT key, t, sum(wait_ns_n) AS n, sum(lost_ns_n) AS told, sum(lost_ns_sum) AS lost,\
 sum(hidden_ns_sum) AS hidden
            FROM ({_buckets(_OF_ROWS, asked)}) GROUP BY key, t))
        WHERE t >= since GROUP BY key, since HAVING sum(told) >= {KNOWN_RATIO} * sum(n)
        """
    ).fetchall()
    return [
        Clock(rank, int(since), hidden / waited if waited else 1.0, hidden / told)
        for rank, since, hidden, waited, told in rows
    ]


def per_rank(
    snapshot: Snapshot,
    metric: Metric,
    asked: Range,
    with_open: Sequence[rollup.Piece],
    open_waits: Sequence[rollup.OpenWait],
) -> str:
    """Return the SQL of (key, t, low, value, high, num, whole) of a metric by the clock that counts.

    By the device's clock, a rank's newest buckets are left out until one of their events has come.
    ``with_open`` are the pieces to read where open waits count, too.
    """
    known = clocks(snapshot, asked)
    if metric.kind == "device_share":
        return _share(metric, known, replace(asked, pieces=with_open), open_waits)
    return {"data_wait": _data_wait, "cushion": _cushion}[metric.of](known, asked)


def _share(
    metric: Metric, known: Sequence[Clock], asked: Range, open_waits: Sequence[rollup.OpenWait]
) -> str:
    hidden_ns_by_rank = {clock.rank: int(clock.hidden_ns) for clock in known}
    waits = [replace(wait, hidden_ns=hidden_ns_by_rank.get(wait.rank, 0)) for wait in open_waits]
    spent = ", ".join(f"sum({name}) AS {name}" for name in SPANS)
    lost = f"{metric.of} - CASE WHEN by_device THEN hidden_in + hidden_ratio * missing_in ELSE 0 END"
    num = f"greatest(0, {lost})"
    value = f"least(1, ({num}) / nullif({metric.of} + {metric.rest}, 0))"
    value = f"1 - {value}" if metric.complement else value
    return (
        f"SELECT key, t, {value} AS low, {value} AS value, {value} AS high, {num} AS num, "
        f"{metric.of} + {metric.rest} AS whole FROM ("
        f"""{
            _clocked(
                f"SELECT key, t, {spent} FROM ({_buckets(_OF_SPANS, asked, waits)}) GROUP BY key, t",
                "told_in",
                known,
                asked,
            )
        }) """
        f"WHERE {'by_device' if metric.device_only else 'true'}"
    )


def _data_wait(known: Sequence[Clock], asked: Range) -> str:
    """Return the SQL of the wait per batch. For a batch without an event, only the mean is known."""
    ends = {
        end: f"CASE WHEN NOT by_device THEN wait_{end} "
        f"WHEN told > 0 THEN {bound}(lost_{end}, mean) ELSE mean END"
        for end, bound in (("min", "least"), ("max", "greatest"))
    }
    return (
        f"SELECT key, t, {ends['min']} AS low, mean AS value, {ends['max']} AS high, wait - hid AS num, "
        f"n AS whole FROM (SELECT *, (wait - hid) / nullif(n, 0) AS mean FROM ({_iterations(known, asked)}))"
    )


def _cushion(known: Sequence[Clock], asked: Range) -> str:
    """Return the SQL of ready batches in seconds of iterations without data wait, as ``Pace.headroom_s``."""
    step = "(step + hid) / nullif(n, 0)"
    return (
        f"SELECT key, t, ready_min * {step} AS low, ready * {step} AS value, ready_max * {step} AS high, "
        f"ready * {step} * n AS num, n AS whole FROM ({_iterations(known, asked)}) WHERE ready IS NOT NULL"
    )


def _iterations(known: Sequence[Clock], asked: Range) -> str:
    """Return the SQL of a bucket's sums by rank; ``hid`` is the part of its waits that was no loss, in ns."""
    sums = (
        "sum(wait_ns_n) AS n, sum(wait_ns_sum) AS wait, min(wait_ns_min) AS wait_min, "
        "max(wait_ns_max) AS wait_max, coalesce(sum(step_ns_sum), 0) AS step, "
        "coalesce(sum(lost_ns_n), 0) AS told, coalesce(sum(lost_ns_sum), 0) AS lost, "
        "min(lost_ns_min) AS lost_min, max(lost_ns_max) AS lost_max, "
        "coalesce(sum(hidden_ns_sum), 0) AS hidden, sum(ready_sum) / nullif(sum(ready_n), 0) AS ready, "
        "min(ready_min) AS ready_min, max(ready_max) AS ready_max"
    )
    buckets = f"SELECT key, t, {sums} FROM ({_buckets(_OF_ROWS, asked)}) GROUP BY key, t"
    hid = "CASE WHEN by_device THEN hidden + hidden_ratio * (wait - lost - hidden) ELSE 0 END"
    return f"SELECT *, {hid} AS hid FROM ({_clocked(buckets, 'told', known, asked)})"


def _clocked(buckets: str, told: str, known: Sequence[Clock], asked: Range) -> str:
    """Return the SQL of buckets with their rank's clock, without buckets whose events may still come."""
    if not known:
        return f"SELECT *, false AS by_device, 0 AS hidden_ratio FROM ({buckets})"
    rows = ", ".join(f"({clock.rank}, {clock.since_ns}, {clock.hidden_ratio!r}::DOUBLE)" for clock in known)
    settled_ns = asked.newest_ns - EVENTS_COME_NS
    return (
        f"SELECT b.*, c.rank IS NOT NULL AS by_device, c.hidden_ratio FROM ({buckets}) b "
        f"LEFT JOIN (VALUES {rows}) c(rank, since_ns, hidden_ratio) "
        "ON c.rank = b.key AND b.t >= c.since_ns "
        f"WHERE c.rank IS NULL OR {told} > 0 OR t + {asked.width_ns} <= {settled_ns}"
    )


def _buckets(source: Source, asked: Range, open_waits: Sequence[rollup.OpenWait] = ()) -> str:
    """Return the SQL of all pieces: rollup columns of a source's measures, or ``SPANS`` if it has none.

    A bucket may come in several rows.
    """
    width = asked.width_ns
    columns = [f"{measure}_{stat}" for measure in source.measures for stat in ("n", "sum", "min", "max")]
    columns = columns or list(SPANS)
    where = "true" if asked.ranks is None else f"key IN ({', '.join(str(int(rank)) for rank in asked.ranks)})"
    parts = []
    for piece in asked.pieces:
        begin, end = piece.start_ns, piece.end_ns
        if piece.level is not None:
            rows = f"(SELECT * FROM {piece.level.table('steps')} WHERE {piece.holds('t_ns')})"
        elif source.measures:
            rows = f"({rollup.from_rows_sql(source, begin, end, width)})"
        else:
            rows = f"(SELECT *, t AS t_ns FROM {rollup.attributed_sql(begin, end, width, open_waits)})"
        parts.append(
            f"SELECT key, t_ns // {width} * {width} AS t, {', '.join(columns)} FROM {rows} WHERE {where}"
        )
    return " UNION ALL ".join(parts)
