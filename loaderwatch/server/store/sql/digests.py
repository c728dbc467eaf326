"""Digests: the few rows of each bucket that are kept beside its sums, so that what no sum tells costs the same however long the run is.

*Slow samples*: the slowest of a rank, an index once. Whatever is among the slowest of the run is among those of its bucket.

*Paths*: an iteration takes what its slowest rank takes. Those of which all ranks began within the bucket are added up; of each
other one the longest is kept, to be compared with what the buckets beside it hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from loaderwatch.server.store.metrics import DIGESTS, LEVELS, SLOW_FETCHES

KEPT_SAMPLES: Final = 20
"""Slow samples that are kept of each rank and bucket, as many as the page asks for. A longer list is made of all rows."""
SORTED_RANKS: Final = 512
"""Ranks whose samples are sorted at once, some 300,000 a minute: DuckDB holds them all in memory."""
WHOLE: Final = -1
"""The loader, epoch and batch of the sum over those iterations of which all ranks are in the bucket."""

SAMPLE: Final = "rank, loader, worker, slow_index, slow_ns, fetch_ns, request_ns"
IS_SAMPLE: Final = "slow_index IS NOT NULL AND slow_ns IS NOT NULL AND request_ns IS NOT NULL"
SLOWEST_FIRST: Final = "loader, slow_index ORDER BY slow_ns DESC, request_ns"

ITERATION: Final = {
    "steps": ("wait_ns", "loader, epoch, batch"),
    "gpu_waits": ("starved_ns", "loader, epoch, batch"),
    "epoch_begins": ("iter_ns", "loader, epoch"),
    "epoch_ends": ("teardown_ns", "loader, epoch"),
}
"""What ranks that go in step wait for in each table, and what is one iteration or one epoch on all of them."""


@dataclass(frozen=True)
class Kept:
    """What is kept of some buckets of a level in one table: the SELECTs of its rows, which have these columns, in any order."""

    table: str
    columns: str
    selects: Sequence[str]


def of_buckets(index: int, source: str, start_ns: int, end_ns: int, ranks: int) -> list[Kept]:
    """Return the digests of a source's buckets of a level in [start, end).

    ``ranks`` is the greatest world size that the run had: an iteration that is not known to be whole is kept by itself, which
    takes space and no more.
    """
    level = LEVELS[index]
    found = []
    for digest in DIGESTS:
        if digest.source == source and level in digest.levels:
            if digest is SLOW_FETCHES:
                selects = _slowest_sql(index, start_ns, end_ns, ranks)
            else:
                selects = [_path_sql(source, start_ns, end_ns, level.ns, ranks)]
            found.append(Kept(level.table(digest.name), ", ".join(digest.columns), selects))
    return found


def _slowest_sql(index: int, start_ns: int, end_ns: int, ranks: int) -> list[str]:
    level, finer = LEVELS[index], LEVELS[index - 1]
    time, rows = "request_ns", f"fetches WHERE {IS_SAMPLE}"
    if finer in SLOW_FETCHES.levels:
        time, rows = "t_ns", f"{finer.table(SLOW_FETCHES.name)} WHERE true"
    selects = []
    for begin in range(start_ns, end_ns, level.ns):
        for some in _some_ranks(ranks):
            sorted_rows = f"{rows} AND {some} AND {time} >= {begin} AND {time} < {begin + level.ns}"
            once = (
                f"SELECT {begin} AS t_ns, {SAMPLE} FROM {sorted_rows} "
                f"QUALIFY row_number() OVER (PARTITION BY rank, {SLOWEST_FIRST}) = 1"
            )
            selects.append(
                f"SELECT * FROM ({once}) "
                f"QUALIFY row_number() OVER (PARTITION BY rank ORDER BY slow_ns DESC, request_ns) <= {KEPT_SAMPLES}"
            )
    return selects


def _some_ranks(ranks: int) -> list[str]:
    """Return conditions of which each row fulfils one, also one whose rank is none of the run's."""
    borders = range(SORTED_RANKS, ranks, SORTED_RANKS)
    if not borders:
        return ["true"]
    between = (f"rank >= {low} AND rank < {high}" for low, high in pairwise(borders))
    return [f"(rank < {borders[0]} OR rank IS NULL)", *between, f"rank >= {borders[-1]}"]


def _path_sql(table: str, start_ns: int, end_ns: int, width_ns: int, ranks: int) -> str:
    duration, one = ITERATION[table]
    bucket = f"request_ns // {width_ns} * {width_ns}"
    # A rank that comes twice instead of another one has another sum of ranks.
    whole = f"seen = {ranks} AND of_ranks = {ranks * (ranks - 1) // 2}"
    picked = ", ".join(
        f"CASE WHEN {whole} THEN {WHOLE} ELSE {column} END AS {column}" for column in one.split(", ")
    )
    return (
        f"SELECT t_ns, loader, epoch, batch, sum(longest) AS longest, count(*) AS number FROM (SELECT t_ns, {picked}, longest FROM ("
        f"SELECT {bucket} AS t_ns, {one}, max({duration})::DOUBLE AS longest, count(*) AS seen, sum(rank) AS of_ranks "
        f"FROM {table} WHERE {is_iteration(table)} AND request_ns >= {start_ns} AND request_ns < {end_ns} GROUP BY t_ns, {one}"
        ")) GROUP BY t_ns, loader, epoch, batch"
    )


def is_iteration(table: str) -> str:
    """Return the SQL of whether a row is of an iteration or an epoch that can be told from others."""
    known = " AND ".join(f"{column} >= 0" for column in ITERATION[table][1].split(", "))
    return f"counted = 1 AND {known}"
