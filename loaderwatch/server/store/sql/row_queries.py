"""Queries for rows on a snapshot of a run's file: epochs, fetches, slow samples, events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.core.columns import Columns
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.server.store import deadline
from loaderwatch.server.store.facts import RunFacts, unpack_event
from loaderwatch.server.store.metrics import SLOW_FETCHES
from loaderwatch.server.store.protocol import StoredEvent
from loaderwatch.server.store.schema import SQL_TYPES, time_column
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import charts, digests, rollup
from loaderwatch.server.store.sql.snapshot import Snapshot, columns_of


def _rows(snapshot: Snapshot, sql: str) -> list[dict[str, Any]]:
    result = snapshot.execute(sql)
    names = [column[0] for column in result.description or ()]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def _of_rank(rank: int | None, column: str = "rank") -> str:
    return "" if rank is None else f" AND {column} = {int(rank)}"


def epochs(snapshot: Snapshot, rank: int | None, limit: int) -> list[dict[str, Any]]:
    """Return the newest epoch_begins with their epoch_ends: epoch numbers may repeat after a restart."""
    newest_first = _rows(
        snapshot,
        f"""
        SELECT b.*, e.request_ns AS end_ns, e.teardown_ns, e.batches, e.ended_by
        FROM (SELECT *, lead(request_ns, 1, {END_OF_TIME_NS})\
 OVER (PARTITION BY rank, loader, epoch ORDER BY request_ns) AS until_ns
              FROM epoch_begins WHERE request_ns IS NOT NULL{_of_rank(rank)}) b
        LEFT JOIN (SELECT DISTINCT ON (rank, loader, epoch, request_ns) * FROM epoch_ends) e
          ON e.rank = b.rank AND e.loader = b.loader AND e.epoch = b.epoch
         AND e.request_ns >= b.request_ns AND e.request_ns < b.until_ns
        QUALIFY row_number() OVER (PARTITION BY b.rank, b.loader, b.epoch, b.request_ns\
 ORDER BY e.request_ns) = 1
        ORDER BY b.request_ns DESC, b.rank DESC, b.loader DESC
        LIMIT {int(limit)}
        """,
    )
    return newest_first[::-1]


def fetches(
    snapshot: Snapshot, rank: int, start_ns: int, end_ns: int, limit: int, worker: int | None = None
) -> dict[str, NDArray[Any]]:
    """Return the newest fetches of a worker (None: all) that overlap [start, end), ordered by time."""
    names = ", ".join(c.name for c in TABLES["fetches"])
    # A fetch may have begun long before the range. An hour back is enough for a chart of workers.
    fetched = snapshot.execute(
        f"""
        SELECT {names} FROM (
          SELECT {names} FROM fetches
          WHERE rank = {int(rank)} AND request_ns < {end_ns} AND request_ns >= {start_ns - 3600 * 10**9}
            AND request_ns + coalesce(fetch_ns, 0)\
 >= {start_ns}{"" if worker is None else f" AND worker = {int(worker)}"}
          ORDER BY request_ns DESC LIMIT {int(limit)}
        ) ORDER BY request_ns
        """
    ).fetchnumpy()
    return {name: integers(values) for name, values in fetched.items()}


def slow_samples(snapshot: Snapshot, rank: int | None, limit: int) -> list[dict[str, Any]]:
    """Return the slowest reading of each dataset index, slowest first."""
    pieces = [rollup.Piece(None, 0, END_OF_TIME_NS)]
    if limit <= digests.KEPT_SAMPLES:
        pieces = rollup.of_digest(snapshot, SLOW_FETCHES)
    # The slowest few thousand rows hold the slowest few indices, unless one index fills them.
    parts = [
        f"SELECT {digests.SAMPLE} FROM {piece.level.table(SLOW_FETCHES.name)} "
        f"WHERE {piece.holds('t_ns')}{_of_rank(rank)}"
        if piece.level is not None
        else f"(SELECT {digests.SAMPLE} FROM fetches "
        f"WHERE {digests.IS_SAMPLE} AND {piece.holds('request_ns')}{_of_rank(rank)} "
        f"ORDER BY slow_ns DESC LIMIT {max(2000, 50 * int(limit))})"
        for piece in pieces
    ]
    return _rows(
        snapshot,
        f"""
        SELECT {digests.SAMPLE} FROM ({" UNION ALL ".join(parts)})
        QUALIFY row_number() OVER (PARTITION BY {digests.SLOWEST_FIRST}) = 1
        ORDER BY slow_ns DESC LIMIT {int(limit)}
        """,
    )


def phases(
    snapshot: Snapshot, rank: int | None, names: Sequence[int], start_ns: int, end_ns: int, limit: int
) -> list[dict[str, Any]]:
    """Return the newest phases with these name indices that overlap [start, end), oldest first."""
    if not names:
        return []
    listed = ", ".join(str(int(name)) for name in names)
    return _rows(
        snapshot,
        f"""
        SELECT * FROM (
          SELECT rank, name, request_ns, coalesce(duration_ns, 0) AS duration_ns FROM phases
          WHERE name IN ({listed}) AND request_ns < {end_ns} AND rank IS NOT NULL{_of_rank(rank)}
            AND request_ns + coalesce(duration_ns, 0) >= {start_ns}
          ORDER BY request_ns DESC LIMIT {int(limit)}
        ) ORDER BY request_ns
        """,
    )


def newest_event(snapshot: Snapshot, end_ns: int) -> int | None:
    """Return the time of the last event before ``end_ns``."""
    (newest,) = snapshot.execute(f"SELECT max(t_ns) FROM events WHERE t_ns < {end_ns}").fetchall()[0]
    return None if newest is None else int(newest)


def facts_before(snapshot: Snapshot, attempt: int) -> RunFacts:
    """Return the facts when this attempt began; ``before`` holds the previous attempt at its end."""
    facts = RunFacts()
    for (body,) in snapshot.execute("SELECT body FROM events WHERE facts ORDER BY ordinal").fetchall():
        facts.take(unpack_event(body))
        if facts.attempt >= attempt:
            break
    return facts


def facts(snapshot: Snapshot, limit: int) -> Iterator[StoredEvent]:
    """Yield the newest events that changed a fact, in the order in which they were stored."""
    newest = f"SELECT * FROM events WHERE facts ORDER BY ordinal DESC LIMIT {int(limit)}"
    yield from _events(snapshot, f"({newest}) ORDER BY ordinal")


def all_events(snapshot: Snapshot) -> Iterator[StoredEvent]:
    """Yield everything that envelopes carried besides rows, in the order in which it was stored."""
    yield from _events(snapshot, "events ORDER BY ordinal")


def _events(snapshot: Snapshot, which: str) -> Iterator[StoredEvent]:
    result = snapshot.execute(f"SELECT t_ns, body, facts FROM {which}")
    while rows := result.fetchmany(200):
        deadline.check()
        for t_ns, body, is_fact in rows:
            yield StoredEvent(t_ns, unpack_event(body), bool(is_fact))


def sequences(snapshot: Snapshot) -> dict[str, list[tuple[int, int]]]:
    """Return the stored sequence numbers of each stream as inclusive intervals."""
    stored: dict[str, list[tuple[int, int]]] = {}
    # Each number is stored once. So a stream without gaps has as many as from its first to its last.
    for stream, first, last, count in snapshot.execute(
        "SELECT stream, min(low), max(high), sum(high - low + 1) FROM acked GROUP BY stream ORDER BY stream"
    ).fetchall():
        stored[stream] = [(first, last)] if count == last - first + 1 else _intervals(snapshot, stream)
    return stored


def _intervals(snapshot: Snapshot, stream: str) -> list[tuple[int, int]]:
    numbers = SequenceSet()
    numbers.extend(
        snapshot.execute("SELECT low, high FROM acked WHERE stream = ? ORDER BY low", [stream]).fetchall()
    )
    return numbers.intervals()


def events(snapshot: Snapshot, start_ns: int, end_ns: int) -> Iterator[StoredEvent]:
    """Yield what envelopes carried besides rows, ordered by time."""
    yield from _events(
        snapshot, f"events WHERE t_ns >= {start_ns} AND t_ns < {end_ns} ORDER BY t_ns, ordinal"
    )


@dataclass(frozen=True)
class Only:
    """A filter of rows by ranks and hosts."""

    ranks: Sequence[int]
    hosts: Sequence[str]

    def where(self, table: str) -> tuple[str, list[str]]:
        """Return a condition on a table's rows, to be appended, and the values of its question marks."""
        if table == "hosts":
            marks = ", ".join("?" for _ in self.hosts)
            return (f" AND host IN ({marks})", list(self.hosts)) if marks else (" AND 1 = 0", [])
        ranks = ", ".join(str(int(rank)) for rank in self.ranks)
        return (f" AND rank IN ({ranks})", []) if ranks else (" AND 1 = 0", [])


def scan(
    snapshot: Snapshot,
    table: str,
    start_ns: int,
    end_ns: int,
    *,
    counted: bool = False,
    only: Only | None = None,
) -> Columns:
    """Return rows of a table with start <= time < end, ordered by time; ``counted`` adds that column."""
    time = time_column(table)
    columns = TABLES[table]
    stored = columns_of(snapshot, table)
    if not stored:  # an older file without this table
        return {c.name: np.empty(0, np.int64 if c.dtype == "i8" else np.float64) for c in columns}
    names = ", ".join(
        c.name if c.name in stored else f"CAST(NULL AS {SQL_TYPES[c.dtype]}) AS {c.name}" for c in columns
    )
    names += ", host" if table == "hosts" else ""
    counted = counted and "counted" in stored
    names += ", counted" if counted else ""
    condition, values = only.where(table) if only is not None else ("", [])
    order = ", ".join([time, *[c.name for c in columns if c.dtype == "i8" and c.name != time][:3]])
    data = snapshot.execute(
        f"SELECT {names} FROM {table} WHERE {time} >= {start_ns} AND {time} < {end_ns}{condition} "
        f"ORDER BY {order}",
        values or None,
    ).fetchnumpy()
    result: dict[str, NDArray[Any]] = {
        c.name: integers(data[c.name]) if c.dtype == "i8" else charts.floats(data[c.name]) for c in columns
    }
    if table == "hosts":
        result["host"] = np.asarray(data["host"], dtype=object)
    if counted:
        result["counted"] = integers(data["counted"])
    return result


def newest_row(snapshot: Snapshot, table: str, end_ns: int, only: Only | None = None) -> int:
    """Return the time of a table's newest row before ``end_ns``, ns UTC; ``end_ns`` if there is none."""
    if not columns_of(snapshot, table):
        return end_ns
    time = time_column(table)
    condition, values = only.where(table) if only is not None else ("", [])
    newest = snapshot.execute(
        f"SELECT max({time}) FROM {table} WHERE {time} < {end_ns}{condition}", values or None
    ).fetchone()
    return end_ns if newest is None or newest[0] is None else int(newest[0])


def next_row(snapshot: Snapshot, table: str, since_ns: int) -> int | None:
    """Return the time of a table's first row at or after ``since_ns``, ns UTC; None if there is none."""
    if not columns_of(snapshot, table):
        return None
    time = time_column(table)
    first = snapshot.execute(f"SELECT min({time}) FROM {table} WHERE {time} >= {since_ns}").fetchone()
    return None if first is None or first[0] is None else int(first[0])


def integers(values: Any) -> NDArray[np.int64]:
    """Return a fetched column as int64, with UNKNOWN for NULL."""
    result: NDArray[np.int64] = np.ma.filled(np.ma.asarray(values, dtype=np.int64), UNKNOWN)
    return result
