"""Queries for sampled stacks on a snapshot of a run: their counts, and their texts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import UNKNOWN, ProfilePart
from loaderwatch.server.store import deadline
from loaderwatch.server.store.facts import unpack_text
from loaderwatch.server.store.metrics import SOURCES
from loaderwatch.server.store.protocol import StoredProfile
from loaderwatch.server.store.sql.row_queries import Only
from loaderwatch.server.store.sql.snapshot import Snapshot, columns_of

_COUNTED: Final = ("rank", "part", "state", "stack", "samples", "readers", "t_ns")
MOST_READ: Final = 1000
"""The most stacks of an answer that are read. Rarer ones count as stacks without a text."""
_SANE: Final = "sum(least(greatest(coalesce({0}, 0), 0), 1000000))"
"""The sum of a column whose values nobody checked: a row counts a few samples."""


def profile(snapshot: Snapshot, part: int, rank: int | None, start_ns: int, end_ns: int) -> StoredProfile:
    """Return the counts of a part that were taken in [start, end), and the texts of their stacks."""
    of_rank = "" if rank is None else f" AND rank = {int(rank)}"
    condition = f"t_ns >= {start_ns} AND t_ns < {end_ns}{of_rank} AND part = {int(part)}"
    rows = []
    if columns_of(snapshot, "profile"):  # an older file that is opened read-only may lack it
        frequent = (
            f"SELECT stack FROM profile WHERE {condition} GROUP BY stack "
            f"ORDER BY {_SANE.format('samples')} DESC, stack LIMIT {MOST_READ}"
        )
        condition_of_texts = f"{condition} AND stack IN ({frequent})"
        rows = snapshot.execute(
            f"SELECT rank, part, state, CASE WHEN stack IN ({frequent}) THEN stack ELSE 0 END AS shown, "
            f"{_SANE.format('samples')} AS sampled, "
            f"{_SANE.format('readers')} AS fetched, max(t_ns) AS last_ns, min(t_ns) AS first_ns "
            f"FROM profile WHERE {condition} GROUP BY rank, part, state, shown ORDER BY rank, shown, state"
        ).fetchall()
    known = [[UNKNOWN if value is None else int(value) for value in row] for row in rows]
    columns = np.array(known, dtype=np.int64).reshape(-1, len(_COUNTED) + 1).T
    counts: Columns = dict(zip(_COUNTED, columns, strict=False))
    sample_s, batch_s = _usual_s(snapshot, part, start_ns, end_ns, of_rank)
    return StoredProfile(
        counts,
        {stack.id: stack.text for stack in _texts(snapshot, condition_of_texts)} if rows else {},
        int(columns[-1].min()) if rows else None,
        sample_s,
        batch_s,
        _loop_ratio(snapshot, part, start_ns, end_ns, of_rank),
    )


def _usual_s(
    snapshot: Snapshot, part: int, start_ns: int, end_ns: int, of_rank: str
) -> tuple[float | None, float | None]:
    """Return the average seconds of a fetch per sample and per batch, or None and a step's own work."""
    within = f"request_ns >= {start_ns} AND request_ns < {end_ns}{of_rank}"
    if part == ProfilePart.FETCH:
        query = (
            "SELECT sum(CASE WHEN samples > 0 THEN fetch_ns / 1e9 END) "
            "/ sum(CASE WHEN samples > 0 THEN samples / 1e0 END) AS sample_s, avg(fetch_ns) / 1e9 AS batch_s "
            f"FROM fetches WHERE fetch_ns IS NOT NULL AND {within}"
        )
    elif part == ProfilePart.STEP:
        own_ns = SOURCES["steps"].measures["other_ns"]
        query = f"SELECT avg({own_ns}) / 1e9 AS batch_s FROM steps WHERE counted = 1 AND {within}"
    else:
        return None, None
    *sample_s, batch_s = snapshot.execute(query).fetchall()[0]
    return _known(sample_s[0] if sample_s else None), _known(batch_s)


def _loop_ratio(snapshot: Snapshot, part: int, start_ns: int, end_ns: int, of_rank: str) -> float | None:
    """Return the largest share of a rank's loop that waits for data, or that is the loop's own work."""
    measures = SOURCES["steps"].measures
    lost_ns = {ProfilePart.FETCH: "wait_ns", ProfilePart.STEP: measures["other_ns"]}.get(ProfilePart(part))
    if lost_ns is None:
        return None
    query = (
        f"SELECT max(lost / whole) AS loop_ratio FROM (SELECT sum(({lost_ns}) / 1e9) AS lost, "
        f"sum(({measures['iteration_ns']}) / 1e9) AS whole FROM steps "
        f"WHERE counted = 1 AND request_ns >= {start_ns} AND request_ns < {end_ns}{of_rank} "
        "GROUP BY rank) AS ranks WHERE whole > 0"
    )
    return _known(snapshot.execute(query).fetchall()[0][0])


def _known(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def texts(
    snapshot: Snapshot, span: tuple[int, int] | None = None, *, only: Only | None = None
) -> Iterator[ProfileStack]:
    """Yield the texts of the stacks with counts in [begin, end), ns UTC, ordered by id; None: all texts.

    ``only`` limits the counts to some ranks. Its values are ranks' numbers, so the query has no parameters.
    """
    condition = ""
    if span is not None:
        of_ranks = "" if only is None else only.where("profile")[0]
        condition = f"t_ns >= {span[0]} AND t_ns < {span[1]}{of_ranks}"
    yield from _texts(snapshot, condition)


def _texts(snapshot: Snapshot, condition: str) -> Iterator[ProfileStack]:
    """Yield the texts of the stacks with counts that fulfil a condition; without one, all texts."""
    if not columns_of(snapshot, "profile_stacks"):
        return
    where = f"WHERE stack IN (SELECT stack FROM profile WHERE {condition}) " if condition else ""
    found = snapshot.execute(f"SELECT stack, body FROM profile_stacks {where}ORDER BY stack")
    while rows := found.fetchmany(200):
        deadline.check()
        for number, body in rows:
            yield ProfileStack(id=number, text=unpack_text(body))
