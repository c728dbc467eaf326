"""How long a rank waits for other ranks, over time: ``detect.measures.coupling`` in SQL, for any interval.

The rules are those of that module, per iteration. A rank waits as long as DDP's own collectives took beyond
the last rank's time; or else for the longest data wait of any rank minus its own. Both need ranks in step.

One case differs. Ranks that work independently may have equal means by chance. This module compares each
iteration, and gives no value for such ranks. Detectors compare the means, and may count waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from loaderwatch.core.wait_rules import EQUAL_RATIO, LEAST_ITERATIONS, MIRRORED_RATIO
from loaderwatch.server.store.metrics import SOURCES
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.snapshot import Snapshot

MOST_ROWS: Final = 250_000
"""Rows that are compared at most. Of more, only every n-th iteration is read, the same on all ranks."""

NOTHING: Final = (
    "SELECT 0 AS key, 0 AS t, 0.0 AS low, 0.0 AS value, 0.0 AS high, 0.0 AS num, 0 AS whole WHERE false"
)


@dataclass(frozen=True)
class Asked:
    """What a chart reads: [start, end) in buckets, for some ranks (None: all)."""

    start_ns: int
    end_ns: int
    width_ns: int
    ranks: Sequence[int] | None
    attempts_ns: Sequence[int] = ()  # when later attempts began: each counts its iterations from the start


def per_rank(snapshot: Snapshot, asked: Asked) -> str:
    """Return the SQL of (key, t, low, value, high, num, whole), in ns per iteration, by rank and bucket."""
    rows = rollup.rows_sql(SOURCES["steps"], asked.start_ns, asked.end_ns)
    (ranks, count) = snapshot.execute(
        "SELECT count(DISTINCT rank), count(*) FROM steps WHERE counted = 1 "
        f"AND request_ns >= {asked.start_ns} AND request_ns < {asked.end_ns}"
    ).fetchall()[0]
    if ranks < 2:
        return NOTHING
    stride = -(-int(count) // MOST_ROWS)
    attempt = " + ".join(["0", *(f"(request_ns >= {int(at)})::INT" for at in asked.attempts_ns)])
    where = "true" if asked.ranks is None else f"key IN ({', '.join(str(int(rank)) for rank in asked.ranks)})"
    return f"""
      WITH iterations AS MATERIALIZED (
        SELECT rank AS key, request_ns, starved_ns, wait_ns + step_ns AS took,
               collective_ns - min(collective_ns) OVER same AS measured,
               least(max(lost) OVER same - lost, step_ns) AS mirrored,
               max(wait_ns + step_ns) OVER same - min(wait_ns + step_ns) OVER same AS apart,
               count(collective_ns) OVER same = {ranks} AS all_measured, count(*) OVER same AS n
        FROM (
          SELECT *, {attempt} AS attempt, CASE WHEN starved_ns IS NULL THEN wait_ns\
 ELSE least(wait_ns, starved_ns) END AS lost
          FROM {rows} WHERE wait_ns >= 0 AND step_ns >= 0 AND batch > 0\
 AND (batch + 7919 * epoch) % {stride} = 0
        )
        WINDOW same AS (PARTITION BY attempt, loader, epoch, batch)
        QUALIFY n = {ranks}
      ), means AS (
        SELECT key, avg(took) AS took, avg(measured) AS measured, avg(mirrored) AS mirrored,\
 avg(apart) AS apart,
               bool_and(all_measured) AND count(starved_ns) = 0 AS all_measured, count(*) AS n
        FROM iterations GROUP BY key
      ), rule AS (
        SELECT count(*) = {ranks} AND min(n) >= {LEAST_ITERATIONS}
                 AND greatest(max(took) - median(took), median(took) - min(took))\
 <= {EQUAL_RATIO} * median(took) AS in_step,
               bool_and(all_measured) AND max(measured) >= {MIRRORED_RATIO} * max(mirrored) AS by_collectives,
               max(apart) <= {MIRRORED_RATIO} * max(mirrored) AS by_durations
        FROM means
      )
      SELECT key, t, min(wait) AS low, avg(wait) AS value, max(wait) AS high,\
 sum(wait) AS num, count(wait) AS whole
      FROM (
        SELECT key, request_ns // {asked.width_ns} * {asked.width_ns} AS t,
               (CASE WHEN by_collectives THEN measured WHEN by_durations THEN mirrored END)::DOUBLE AS wait
        FROM iterations, rule WHERE in_step AND {where}
      ) WHERE wait IS NOT NULL GROUP BY key, t
    """
