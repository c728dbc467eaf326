"""Digests: a few rows per bucket for what its sums cannot answer, so that long runs stay cheap to query.

*Slow samples*: the slowest of each rank, each index once. A run's slowest are among its buckets' slowest.

*Paths*: an iteration takes as long as its slowest rank. Iterations that all ranks began within the bucket
are added up. Of any other iteration the longest duration is kept, to be compared with neighbouring buckets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from loaderwatch.server.store.metrics import DIGESTS, LEVELS, SLOW_FETCHES

KEPT_SAMPLES: Final = 20
"""Slow samples kept per rank and bucket, as many as the page shows. A longer list is made from all rows."""
SORTED_RANKS: Final = 512
"""Ranks whose samples are sorted together, about 300,000 a minute: DuckDB holds them all in memory."""
WHOLE: Final = -1
"""Loader, epoch and batch of the row that sums the iterations with all ranks in the bucket."""

SAMPLE: Final = "rank, loader, worker, slow_index, slow_ns, fetch_ns, request_ns"
IS_SAMPLE: Final = "slow_index IS NOT NULL AND slow_ns IS NOT NULL AND request_ns IS NOT NULL"
SLOWEST_FIRST: Final = "loader, slow_index ORDER BY slow_ns DESC, request_ns"

ITERATION: Final = {
    "steps": ("wait_ns", "loader, epoch, batch"),
    "gpu_waits": ("starved_ns", "loader, epoch, batch"),
    "epoch_begins": ("iter_ns", "loader, epoch"),
    "epoch_ends": ("teardown_ns", "loader, epoch"),
}
"""By table, what ranks in step wait for, and the columns that identify an iteration or epoch on all ranks."""


@dataclass(frozen=True)
class Kept:
    """What one table keeps of a level's buckets: SELECTs that give rows with these columns, in any order."""

    table: str
    columns: str
    selects: Sequence[str]


def of_buckets(index: int, source: str, start_ns: int, end_ns: int, ranks: int) -> list[Kept]:
    """Return the digests of a source's buckets of a level in [start, end).

    ``ranks`` is the run's greatest world size so far. An iteration that is not known to be whole is kept by
    itself, which costs only space.
    """
    level = LEVELS[index]
    kept = []
    for digest in DIGESTS:
        if digest.source == source and level in digest.levels:
            if digest is SLOW_FETCHES:
                selects = _slowest_sql(index, start_ns, end_ns, ranks)
            else:
                selects = [_path_sql(source, start_ns, end_ns, level.ns, ranks)]
            kept.append(Kept(level.table(digest.name), ", ".join(digest.columns), selects))
    return kept


def _slowest_sql(index: int, start_ns: int, end_ns: int, ranks: int) -> list[str]:
    level, finer = LEVELS[index], LEVELS[index - 1]
    time, rows = "request_ns", f"fetches WHERE {IS_SAMPLE}"
    if finer in SLOW_FETCHES.levels:
        time, rows = "t_ns", f"{finer.table(SLOW_FETCHES.name)} WHERE true"
    selects = []
    for begin in range(start_ns, end_ns, level.ns):
        for some_ranks in _some_ranks(ranks):
            sorted_rows = f"{rows} AND {some_ranks} AND {time} >= {begin} AND {time} < {begin + level.ns}"
            slowest_per_index = (
                f"SELECT {begin} AS t_ns, {SAMPLE} FROM {sorted_rows} "
                f"QUALIFY row_number() OVER (PARTITION BY rank, {SLOWEST_FIRST}) = 1"
            )
            selects.append(
                f"SELECT * FROM ({slowest_per_index}) QUALIFY row_number() OVER "
                f"(PARTITION BY rank ORDER BY slow_ns DESC, request_ns) <= {KEPT_SAMPLES}"
            )
    return selects


def _some_ranks(ranks: int) -> list[str]:
    """Return conditions of which each row meets exactly one, even a row with an invalid rank."""
    borders = range(SORTED_RANKS, ranks, SORTED_RANKS)
    if not borders:
        return ["true"]
    between = (f"rank >= {low} AND rank < {high}" for low, high in pairwise(borders))
    return [f"(rank < {borders[0]} OR rank IS NULL)", *between, f"rank >= {borders[-1]}"]


def _path_sql(table: str, start_ns: int, end_ns: int, width_ns: int, ranks: int) -> str:
    duration, identity = ITERATION[table]
    bucket = f"request_ns // {width_ns} * {width_ns}"
    # The sum of ranks differs when one rank comes twice and another is missing.
    whole = f"seen = {ranks} AND of_ranks = {ranks * (ranks - 1) // 2}"
    columns = ", ".join(
        f"CASE WHEN {whole} THEN {WHOLE} ELSE {column} END AS {column}" for column in identity.split(", ")
    )
    return (
        "SELECT t_ns, loader, epoch, batch, sum(longest) AS longest, count(*) AS number "
        f"FROM (SELECT t_ns, {columns}, longest FROM (SELECT {bucket} AS t_ns, {identity}, "
        f"max({duration})::DOUBLE AS longest, count(*) AS seen, sum(rank) AS of_ranks "
        f"FROM {table} WHERE {is_iteration(table)} "
        f"AND request_ns >= {start_ns} AND request_ns < {end_ns} GROUP BY t_ns, {identity}"
        ")) GROUP BY t_ns, loader, epoch, batch"
    )


def is_iteration(table: str) -> str:
    """Return the SQL condition that a row belongs to an identifiable iteration or epoch."""
    known = " AND ".join(f"{column} >= 0" for column in ITERATION[table][1].split(", "))
    return f"counted = 1 AND {known}"
