"""Queries for sums over a whole run or an attempt, on a snapshot of a run: by rank, and along the path of what each iteration waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.server.store.metrics import LEVELS
from loaderwatch.server.store.protocol import PathTotals, RankTotals
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.snapshot import Snapshot


def by_rank(
    snapshot: Snapshot, bounds: tuple[int, int], span: tuple[int, int] | None = None
) -> dict[int, RankTotals]:
    """Return sums by rank over the whole run (its ``bounds``), or over [begin, end) of ``span``, from rows alone."""
    width = LEVELS[-1].ns
    begin, end = bounds[0] // width * width, -(-bounds[1] // width) * width
    found, starvation = (
        rollup.pieces(begin, end, len(LEVELS) - 1, source, rollup.load_dirty(snapshot))
        if span is None
        else [rollup.Piece(None, *span)]
        for source in ("steps", "gpu_waits")
    )
    within = "true" if span is None else f"request_ns >= {span[0]} AND request_ns < {span[1]}"
    parts = []
    for piece in found:
        if piece.level is None:
            parts.append(
                "SELECT rank AS key, count(*) AS n, sum(advance)::DOUBLE AS steps, sum(wait_ns)::DOUBLE AS wait, "
                "sum(step_ns)::DOUBLE AS step, min(request_ns) AS first, max(request_ns) AS last FROM steps "
                f"WHERE counted = 1 AND {piece.holds('request_ns')} GROUP BY rank"
            )
        else:
            parts.append(
                "SELECT key, sum(n) AS n, sum(advance_sum) AS steps, sum(wait_ns_sum) AS wait, sum(step_ns_sum) AS step, "
                f"min(t_ns) AS first, max(t_ns) AS last FROM {piece.level.table('steps')} "
                f"WHERE n > 0 AND {piece.holds('t_ns')} GROUP BY key"
            )
    boundary: dict[int, tuple[int, float]] = {}
    for rank, count, spent in snapshot.execute(
        f"""
        SELECT rank, sum(n), sum(spent) FROM (
          SELECT rank, count(*) AS n, sum(coalesce(iter_ns, 0))::DOUBLE AS spent
          FROM epoch_begins WHERE counted = 1 AND {within} GROUP BY rank
          UNION ALL
          SELECT rank, 0, sum(coalesce(teardown_ns, 0))::DOUBLE FROM epoch_ends WHERE counted = 1 AND {within} GROUP BY rank
        ) GROUP BY rank HAVING rank IS NOT NULL -- a row may say anything
        """
    ).fetchall():
        boundary[rank] = (int(count), float(spent or 0.0))
    evaluated: dict[int, int] = dict(
        snapshot.execute(
            "SELECT rank, count(*) FROM steps WHERE counted = 0 AND off_main_thread IS DISTINCT FROM 1 "
            f"AND {within} GROUP BY rank HAVING rank IS NOT NULL"
        ).fetchall()
    )
    starved = _starved(snapshot, starvation)
    result: dict[int, RankTotals] = {}
    rows = (
        snapshot.execute(
            "SELECT key, sum(steps), sum(n), sum(wait), sum(step), min(first), max(last) "
            f"FROM ({' UNION ALL '.join(parts)}) GROUP BY key HAVING key IS NOT NULL ORDER BY key"
        ).fetchall()
        if parts
        else []
    )
    for key, steps, batches, wait, step, first, last in rows:
        epoch_count, spent = boundary.pop(key, (0, 0.0))
        device_batches, starved_s = starved.get(key, (0, 0.0))
        result[key] = RankTotals(
            steps=int(steps or 0),
            batches=int(batches or 0),
            eval_batches=evaluated.pop(key, 0),
            wait_s=float(wait or 0.0) / 1e9,
            step_s=float(step or 0.0) / 1e9,
            epochs=epoch_count,
            boundary_s=spent / 1e9,
            first_ns=int(first),
            last_ns=int(last),
            device_batches=device_batches,
            starved_s=starved_s,
        )
    for key in boundary.keys() | evaluated.keys():
        epoch_count, spent = boundary.get(key, (0, 0.0))
        result[key] = RankTotals(
            0, 0, evaluated.get(key, 0), 0.0, 0.0, epoch_count, spent / 1e9, bounds[0], bounds[0]
        )
    return result


_PATH: Final = {
    "steps": ("wait_ns", "loader, epoch, batch"),
    "gpu_waits": ("starved_ns", "loader, epoch, batch"),
    "epoch_begins": ("iter_ns", "loader, epoch"),
    "epoch_ends": ("teardown_ns", "loader, epoch"),
}
"""What ranks that go in step wait for in each table, and what is one iteration or one epoch on all of them."""


def along_path(snapshot: Snapshot, span: tuple[int, int]) -> PathTotals:
    """Return the sums over iterations and epochs within [begin, end) of what the slowest rank took, from rows alone."""
    found = {}
    for table, (duration, one) in _PATH.items():
        known = " AND ".join(f"{column} >= 0" for column in one.split(", "))
        row = snapshot.execute(
            f"SELECT coalesce(sum(longest), 0)::DOUBLE, count(*) FROM (SELECT max({duration}) AS longest FROM {table} "
            f"WHERE counted = 1 AND request_ns >= {span[0]} AND request_ns < {span[1]} AND {known} GROUP BY {one})"
        ).fetchone()
        longest_ns, number = row or (0.0, 0)
        found[table] = float(longest_ns) / 1e9, int(number)
    return PathTotals(found)


def _starved(snapshot: Snapshot, found: Sequence[rollup.Piece]) -> dict[int, tuple[int, float]]:
    """Return by rank of how many batches the device's clock tells, and the seconds in which the device lacked their data."""
    parts = [
        "SELECT rank AS key, count(starved_ns) AS n, sum(starved_ns)::DOUBLE AS starved FROM gpu_waits "
        f"WHERE counted = 1 AND {piece.holds('request_ns')} GROUP BY rank"
        if piece.level is None
        else f"SELECT key, sum(starved_ns_n) AS n, sum(starved_ns_sum) AS starved FROM {piece.level.table('gpu_waits')} "
        f"WHERE {piece.holds('t_ns')} GROUP BY key"
        for piece in found
    ]
    if not parts:
        return {}
    rows = snapshot.execute(
        f"SELECT key, sum(n), sum(starved) FROM ({' UNION ALL '.join(parts)}) GROUP BY key HAVING key IS NOT NULL"
    ).fetchall()
    return {key: (int(count or 0), float(spent or 0.0) / 1e9) for key, count, spent in rows}
