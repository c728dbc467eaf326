"""Rollups: the sums of each level's closed buckets, so that a chart costs the same however long the run is.

``dirty`` names each level's buckets that got rows since they were summed, or were never summed. A bucket is
summed once it is closed, and again when late rows come. A query reads clean buckets from a level, others from
the level below, and finally from the rows. Its answer never depends on when rollups ran.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.server.store.deadline import may_begin
from loaderwatch.server.store.metrics import LEVELS, SOURCES, SPANS, Digest, Level, Source
from loaderwatch.server.store.rows import LOOKBACK_NS, MAX_STEP_NS
from loaderwatch.server.store.schema import rollup_columns
from loaderwatch.server.store.sql import digests
from loaderwatch.server.store.sql.snapshot import Snapshot, columns_of

GRACE_NS: Final = 3 * 10**9
"""A bucket is summed this long after its end. Healthy streamers have delivered its rows by then."""

AT_ONCE_NS: Final = 120 * 10**9
"""Nanoseconds of a run that one sum covers at first. With 1,024 ranks, it takes DuckDB a second."""

MOST_AT_ONCE_NS: Final = 3600 * 10**9
"""Nanoseconds that one sum covers at most, if sums are fast: a streamer may bring hours at once."""

PASS_S: Final = 0.5
"""No sum begins later than this after a pass over all runs began: all their envelopes wait meanwhile."""

LONGEST_S: Final = 2.0
"""Seconds after which a pass's last sum is interrupted: several times a sum of 1,024 ranks."""

REST: Final = 10.0
"""An interrupted pass rests this many times its duration, so such passes take at most a tenth of the time."""

MOST_DIRTY: Final = 100_000
"""A run with more dirty buckets stores nothing until some are summed. Half a day's outage leaves as many."""

MAX_PIECES: Final = 24
"""How many stretches a query reads from rows at most. Beyond that, neighbours are joined."""

Dirty = dict[tuple[int, str], set[int]]
"""Maps (level index, source) to the beginnings of its dirty buckets."""

_Sorted = dict[int, NDArray[np.int64]]
"""Maps a level's index to the sorted beginnings of a source's dirty buckets."""


@dataclass(frozen=True)
class Piece:
    """[start, end) of a query without the stretches ``without``, read from a level (None: from the rows)."""

    level: Level | None
    start_ns: int
    end_ns: int
    without: tuple[tuple[int, int], ...] = ()

    def holds(self, time: str) -> str:
        """Return the SQL condition that the column ``time`` lies in this piece."""
        excluded = "".join(f" AND NOT ({time} >= {start} AND {time} < {end})" for start, end in self.without)
        return f"{time} >= {self.start_ns} AND {time} < {self.end_ns}{excluded}"


def pieces(start_ns: int, end_ns: int, level: int, source: str, dirty: Dirty, finest: int = 0) -> list[Piece]:
    """Plan how to read [start, end), aligned to ``level`` (-1: the rows). Dirty buckets are read finer.

    All clean stretches of a level are one piece, so that a query reads its table once.
    """
    unclean = {
        index: np.sort(np.fromiter(dirty.get((index, source), ()), dtype=np.int64))
        for index in range(finest, level + 1)
    }
    return _once(_join(_in_order(start_ns, end_ns, level, unclean, finest)))


def of_span(dirty: Dirty, span: tuple[int, int], level: int, source: str, finest: int = 0) -> list[Piece]:
    """Plan how to read an unaligned [begin, end): parts that fill no bucket are read from the rows.

    No level finer than ``finest`` is read.
    """
    begin, end = span
    width = LEVELS[level].ns
    first = -(-begin // width) * width
    last = end if end >= END_OF_TIME_NS else end // width * width
    if first >= last:
        return [Piece(None, begin, end)]
    edges = [Piece(None, *edge) for edge in ((begin, first), (last, end)) if edge[0] < edge[1]]
    return [*pieces(first, last, level, source, dirty, finest), *edges]


def of_digest(snapshot: Snapshot, digest: Digest, span: tuple[int, int] = (0, END_OF_TIME_NS)) -> list[Piece]:
    """Plan how to read a digest over [begin, end): from its levels where they are clean, else from rows."""
    if not all(columns_of(snapshot, level.table(digest.name)) for level in digest.levels):
        return [Piece(None, *span)]  # an older file without digests, opened read-only
    finest, widest = (LEVELS.index(digest.levels[end]) for end in (0, -1))
    return of_span(load_dirty(snapshot), span, widest, digest.source, finest)


def _in_order(start_ns: int, end_ns: int, level: int, unclean: _Sorted, finest: int) -> list[Piece]:
    if start_ns >= end_ns:
        return []
    if level < finest:
        return [Piece(None, start_ns, end_ns)]
    width = LEVELS[level].ns
    dirty_here = unclean[level]
    first, last = np.searchsorted(dirty_here, (start_ns, end_ns)).tolist()
    ordered: list[Piece] = []
    read_until_ns = start_ns
    for begin, end in _runs(dirty_here[first:last], width):
        if begin > read_until_ns:
            ordered.append(Piece(LEVELS[level], read_until_ns, begin))
        ordered.extend(_in_order(begin, end, level - 1, unclean, finest))
        read_until_ns = end
    if read_until_ns < end_ns:
        ordered.append(Piece(LEVELS[level], read_until_ns, end_ns))
    return ordered


def _runs(sorted_begins: NDArray[np.int64], width: int) -> list[tuple[int, int]]:
    """Return the stretches that buckets cover. Beyond ``MAX_PIECES``, the narrowest gaps are closed."""
    if not len(sorted_begins):
        return []
    gaps = np.diff(sorted_begins)
    cuts = np.flatnonzero(gaps > width)
    if len(cuts) > MAX_PIECES:
        cuts = np.sort(cuts[np.argpartition(gaps[cuts], -MAX_PIECES)[-MAX_PIECES:]])
    begins = sorted_begins[np.append(0, cuts + 1)]
    ends = sorted_begins[np.append(cuts, -1)] + width
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _join(ordered: list[Piece]) -> list[Piece]:
    """Join stretches of rows across the narrowest gaps until ``MAX_PIECES`` are left; rows have all data."""
    raw = [i for i, piece in enumerate(ordered) if piece.level is None]
    pieces_left = len(ordered)
    joined: set[int] = set()  # indices of pieces that are joined with the one before
    for first, last in sorted(
        pairwise(raw), key=lambda two: ordered[two[1]].start_ns - ordered[two[0]].end_ns
    ):
        if pieces_left <= MAX_PIECES:
            break
        joined.update(range(first + 1, last + 1))
        pieces_left -= last - first
    result: list[Piece] = []
    for index, piece in enumerate(ordered):
        if index in joined:
            result[-1] = Piece(None, result[-1].start_ns, piece.end_ns)
        else:
            result.append(piece)
    return result


def _once(ordered: Sequence[Piece]) -> list[Piece]:
    """Make one piece of all pieces of a level."""
    single: list[Piece] = []
    for level in LEVELS:
        of_level = [piece for piece in ordered if piece.level == level]
        if of_level:
            gaps = ((a.end_ns, b.start_ns) for a, b in pairwise(of_level) if a.end_ns < b.start_ns)
            single.append(Piece(level, of_level[0].start_ns, of_level[-1].end_ns, tuple(gaps)))
    return [*single, *(piece for piece in ordered if piece.level is None)]


@dataclass(frozen=True)
class OpenWait:
    """A data wait that has not ended and therefore has no row yet."""

    rank: int
    since_ns: int
    seen_ns: int  # when it was last seen open
    hidden_ns: int = 0  # the part in which the device usually has work left


def attributed_sql(start_ns: int, end_ns: int, width_ns: int, open_waits: Sequence[OpenWait] = ()) -> str:
    """Return the SQL of (key, t, and ``SPANS``): data wait and step time in [start, end), by bucket.

    A wait of 20 s is spread over the buckets that it covers. The part in which the device works comes first.
    """
    width = width_ns
    first, last = start_ns // width, (end_ns - 1) // width
    rows = _spans_sql(start_ns, end_ns, open_waits)
    until = f"least((r // {width} + 1) * {width}, {end_ns})"  # the end of the row's first bucket
    # Nearly all rows end in their first bucket. Only the others need unnest, which costs several times more.
    return f"""(
      SELECT key, t, wait_in, step_in, hidden_in, CASE WHEN told THEN 0 ELSE wait_in END AS missing_in,
             CASE WHEN told THEN wait_in + step_in ELSE 0 END AS told_in
      FROM (
        SELECT key, told, r // {width} * {width} AS t, (least(d, {until}) - r)::DOUBLE AS wait_in,
               (least(e, {until}) - least(d, {until}))::DOUBLE AS step_in,\
 (least(h, {until}) - r)::DOUBLE AS hidden_in
        FROM {rows} WHERE r >= {start_ns}
        UNION ALL
        SELECT key, told, b * {width}, {_overlap("r", "d", start_ns)}, {_overlap("d", "e", start_ns)},\
 {_overlap("r", "h", start_ns)}
        FROM (
          SELECT *, b * {width} AS b_from, least((b + 1) * {width}, {end_ns}) AS b_to FROM (
            SELECT key, told, r, h, d, e,
                   unnest(range(CASE WHEN r < {start_ns} THEN {first} ELSE r // {width} + 1 END,
                                least(e // {width}, {last}) + 1)) AS b
            FROM {rows} WHERE e > {start_ns} AND (r < {start_ns} OR e > {until})
          )
        )
      )
    )"""


def _overlap(begin: str, end: str, start_ns: int) -> str:
    """Return the SQL of the time between two columns that falls into the bucket [b_from, b_to)."""
    return f"greatest(0, least({end}, b_to) - greatest({begin}, b_from, {start_ns}))::DOUBLE"


def _spans_sql(start_ns: int, end_ns: int, open_waits: Sequence[OpenWait]) -> str:
    """Return the SQL of (key, r, h, d, e, told) of each counted step that may reach into [start, end).

    r: requested; h: device out of work (or r); d: delivered; e: step over; told: whether a CUDA event gave h.
    """
    open_rows = ", ".join(
        f"({w.rank}, {w.since_ns}::BIGINT, {min(w.since_ns + w.hidden_ns, w.seen_ns)}::BIGINT, "
        f"{w.seen_ns}::BIGINT, {w.seen_ns}::BIGINT, true)"
        for w in open_waits
        if w.since_ns < end_ns and w.seen_ns > start_ns
    )
    picked = (
        "s.rank AS key, s.request_ns AS r, "
        "s.request_ns + greatest(0, coalesce(s.wait_ns - g.starved_ns, 0)) AS h, "
        "s.request_ns + coalesce(s.wait_ns, 0) AS d, "
        "s.request_ns + coalesce(s.wait_ns, 0) + coalesce(s.step_ns, 0) AS e, "
        "g.starved_ns IS NOT NULL AS told"
    )
    in_range = f"request_ns >= {start_ns - LOOKBACK_NS} AND request_ns < {end_ns}"
    return f"""(
        SELECT {picked}
        FROM (SELECT * FROM steps WHERE counted = 1 AND {in_range}
              AND coalesce(wait_ns, 0) + coalesce(step_ns, 0) <= {LOOKBACK_NS}) s
        LEFT JOIN (SELECT * FROM gpu_waits WHERE {in_range}) g USING (rank, loader, request_ns)
        UNION ALL
        SELECT {picked}
        FROM (SELECT * FROM long_steps WHERE request_ns < {end_ns}\
 AND request_ns + wait_ns + step_ns > {start_ns}) s
        LEFT JOIN gpu_waits g USING (rank, request_ns)
        {f"UNION ALL SELECT * FROM (VALUES {open_rows})" if open_rows else ""}
      )"""


def rows_sql(source: Source, start_ns: int, end_ns: int) -> str:
    """Return the FROM clause for the rows of [start, end), joined with the table that completes them."""
    in_range = f"{source.time} >= {start_ns} AND {source.time} < {end_ns}"
    rows = f"(SELECT * FROM {source.table} WHERE ({source.where}) AND {in_range})"
    if not source.completed_by:
        return rows
    return (
        f"({rows} LEFT JOIN (SELECT rank, loader, request_ns, starved_ns "
        f"FROM {source.completed_by} WHERE {in_range}) "
        "USING (rank, loader, request_ns))"
    )


def _summed(measure: str) -> str:
    return (
        f"sum({measure}_n) AS {measure}_n, sum({measure}_sum) AS {measure}_sum, "
        f"min({measure}_min) AS {measure}_min, max({measure}_max) AS {measure}_max"
    )


def _counted(measure: str, expression: str) -> str:
    value = f"({expression})::DOUBLE"
    return (
        f"count({value}) AS {measure}_n, sum({value}) AS {measure}_sum, "
        f"min({value}) AS {measure}_min, max({value}) AS {measure}_max"
    )


def from_rows_sql(source: Source, start_ns: int, end_ns: int, width_ns: int) -> str:
    """Return a SELECT with ``rollup_columns``: the rows of [start, end) summed by key and bucket."""
    measures = ", ".join(_counted(m, expression) for m, expression in source.measures.items())
    direct = (
        f"SELECT {source.key} AS key, {source.time} // {width_ns} * {width_ns} AS t_ns, "
        f"count(*) AS n, {measures} "
        f"FROM {rows_sql(source, start_ns, end_ns)} GROUP BY ALL"
    )
    if not source.spans:
        return direct
    nothing = ", ".join("0, NULL::DOUBLE, NULL::DOUBLE, NULL::DOUBLE" for _ in source.measures)
    sums = ", ".join(_summed(m) for m in source.measures)
    spent = ", ".join(f"sum({name}) AS {name}" for name in SPANS)
    zeros = ", ".join(f"0::DOUBLE AS {name}" for name in SPANS)
    return (
        f"SELECT key, t_ns, sum(n) AS n, {sums}, {spent} FROM (SELECT *, {zeros} FROM ({direct}) UNION ALL "
        f"SELECT key, t, 0, {nothing}, {spent} "
        f"FROM {attributed_sql(start_ns, end_ns, width_ns)} GROUP BY key, t) GROUP BY key, t_ns"
    )


def _from_level_sql(
    source: Source, name: str, below: Level, start_ns: int, end_ns: int, width_ns: int
) -> str:
    sums = ", ".join(_summed(m) for m in source.measures)
    if source.spans:
        sums += "".join(f", sum({name}) AS {name}" for name in SPANS)
    return (
        f"SELECT key, t_ns // {width_ns} * {width_ns} AS t_ns, sum(n) AS n, {sums} FROM {below.table(name)} "
        f"WHERE t_ns >= {start_ns} AND t_ns < {end_ns} GROUP BY ALL"
    )


@dataclass
class Pace:
    """How much of a run is summed at once. A sum that took too long is retried smaller, then given up."""

    at_once_ns: int = AT_ONCE_NS
    given_up: set[tuple[int, str, int]] = field(default_factory=set)
    """(level index, source, bucket) that take too long alone. They stay dirty, so queries read their rows."""
    cut: bool = False  # something was left for the next pass
    _under_way: Closed | None = None
    _began_s: float = 0.0
    _longest_s: float = 0.0  # the longest sum of this pass

    def begin(self, closed: Closed) -> None:
        """Note that a sum begins."""
        self._under_way, self._began_s = closed, time.monotonic()

    def end(self) -> None:
        """Note that the sum is done."""
        self._longest_s = max(self._longest_s, time.monotonic() - self._began_s)

    def interrupted(self) -> None:
        """Note that the sum took too long: halve the amount, or give up a single bucket."""
        closed = self._under_way
        if closed is None:
            return
        if len(closed.begins) == 1:
            self.given_up.add((closed.index, closed.source, closed.begins[0]))
        self.at_once_ns = max(LEVELS[0].ns, min(self.at_once_ns, closed.end_ns - closed.start_ns) // 2)

    def over(self) -> None:
        """Note that a pass is over. If it was fast and left something, sum more at once next time."""
        if self._longest_s > PASS_S:
            self.at_once_ns = max(LEVELS[0].ns, self.at_once_ns // 2)
        elif self.cut and self._longest_s < PASS_S / 4:
            self.at_once_ns = min(MOST_AT_ONCE_NS, 2 * self.at_once_ns)
        self.cut, self._longest_s = False, 0.0


@dataclass(frozen=True)
class Closed:
    """A stretch of a level, and the beginnings of its dirty buckets, which are all closed."""

    index: int
    source: str
    begins: list[int]

    @property
    def start_ns(self) -> int:
        """Where the stretch begins."""
        return self.begins[0]

    @property
    def end_ns(self) -> int:
        """Where the stretch ends."""
        return self.begins[-1] + LEVELS[self.index].ns


def ready(dirty: Dirty, newest_ns: int, pace: Pace) -> Iterator[Closed]:
    """Yield stretches with closed dirty buckets. ``pace`` limits how much of each level and source.

    The caller removes a stretch's buckets from ``dirty`` before the next one. Clean buckets between dirty
    ones are summed again, which costs less than one query per dirty bucket.
    """
    for index, level in enumerate(LEVELS):
        for name in SOURCES:
            dirty_here = dirty.get((index, name))
            if not dirty_here:
                continue
            given_up = {t for at, source, t in pace.given_up if (at, source) == (index, name)}
            closed = [t for t in dirty_here if t + level.ns + GRACE_NS <= newest_ns and t not in given_up]
            if index:
                finer = dirty.get((index - 1, name), set())
                blocked = {t // level.ns * level.ns for t in finer}
                closed = [t for t in closed if t not in blocked]
            if closed:
                closed.sort()
                until_ns = closed[0] + max(level.ns, pace.at_once_ns)
                begins = closed[: bisect_left(closed, until_ns)]
                if given_up:  # none of them may lie between
                    begins = [t for at, t in enumerate(begins) if t == begins[0] + at * level.ns]
                pace.cut = pace.cut or len(begins) < len(closed)
                yield Closed(index, name, begins)


def kept_of(index: int, name: str, start_ns: int, end_ns: int, ranks: int) -> list[digests.Kept]:
    """Return a source's sums and digests of a level's buckets in [start, end), see ``digests.of_buckets``."""
    columns = ", ".join(rollup_columns(SOURCES[name]))
    sums = digests.Kept(LEVELS[index].table(name), columns, [_summed_sql(index, name, start_ns, end_ns)])
    return [sums, *digests.of_buckets(index, name, start_ns, end_ns, ranks)]


def _summed_sql(index: int, name: str, start_ns: int, end_ns: int) -> str:
    """Return a SELECT with a level's rollup rows, computed from the level below or from the rows."""
    source, width = SOURCES[name], LEVELS[index].ns
    if index == 0:
        return from_rows_sql(source, start_ns, end_ns, width)
    return _from_level_sql(source, name, LEVELS[index - 1], start_ns, end_ns, width)


def roll(
    connection: duckdb.DuckDBPyConnection,
    dirty: Dirty,
    newest_ns: int,
    rolled_until: dict[tuple[int, str], int],
    ranks: int,
    pace: Pace,
) -> int:
    """Sum closed dirty buckets of a run with at most ``ranks`` ranks; return how many.

    Each level and source has one transaction. Later ones begin only as long as this thread's deadline allows.
    ``rolled_until`` says up to where rollup rows may exist and must be deleted first. It is kept current.
    """
    done = 0
    for closed in ready(dirty, newest_ns, pace):
        pace.begin(closed)
        index, name, start, end = closed.index, closed.source, closed.start_ns, closed.end_ns
        known_until = rolled_until.get((index, name), 0)
        connection.execute("BEGIN")
        for kept in kept_of(index, name, start, end, ranks):
            if start < known_until:
                connection.execute(f"DELETE FROM {kept.table} WHERE t_ns >= {start} AND t_ns < {end}")
            for rows in kept.selects:
                connection.execute(
                    f"INSERT INTO {kept.table} ({kept.columns}) SELECT {kept.columns} FROM ({rows})"
                )
        connection.execute(
            f"DELETE FROM dirty WHERE level = {index} AND source = '{name}' "
            f"AND t_ns IN ({', '.join(map(str, closed.begins))})"
        )
        connection.execute("COMMIT")
        dirty[index, name].difference_update(closed.begins)
        rolled_until[index, name] = max(known_until, end)
        pace.end()
        done += len(closed.begins)
        if not may_begin():
            break
    pace.over()
    return done


def load_dirty(connection: Snapshot) -> Dirty:
    """Return the dirty buckets in the snapshot."""
    dirty: Dirty = {}
    for level, source, t_ns in connection.execute("SELECT level, source, t_ns FROM dirty").fetchall():
        dirty.setdefault((level, source), set()).add(t_ns)
    return dirty


def mark_dirty(touched: dict[str, set[int]], dirty: Dirty) -> list[tuple[int, str, int]]:
    """Return the (level, source, bucket) that become dirty; leave ``dirty`` unchanged."""
    fresh: list[tuple[int, str, int]] = []
    for source, buckets in touched.items():
        for index, level in enumerate(LEVELS):
            wanted = {t // level.ns * level.ns for t in buckets}
            wanted -= dirty.get((index, source), set())
            fresh.extend((index, source, t) for t in sorted(wanted))
    return fresh


def with_open_waits(dirty: Dirty, open_waits: Sequence[OpenWait]) -> Dirty:
    """Return ``dirty`` plus every bucket that an open wait covers, so that rows are read there."""
    if not open_waits:
        return dirty
    since = max(min(w.since_ns for w in open_waits), max(w.seen_ns for w in open_waits) - MAX_STEP_NS)
    until = max(w.seen_ns for w in open_waits)
    wider = dict(dirty)
    for index, level in enumerate(LEVELS):
        first = since // level.ns * level.ns
        wider[index, "steps"] = dirty.get((index, "steps"), set()) | set(range(first, until, level.ns))
    return wider
