"""Queries for sums over a run or an attempt: by rank, and over what each iteration waited for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.core.clock import END_OF_TIME_NS
from loaderwatch.server.store.metrics import LEVELS, PATHS
from loaderwatch.server.store.protocol import PathTotals, RankTotals
from loaderwatch.server.store.sql import digests, rollup
from loaderwatch.server.store.sql.snapshot import Snapshot

WHOLE_RUN: Final = (0, END_OF_TIME_NS)


def by_rank(snapshot: Snapshot, span: tuple[int, int] = WHOLE_RUN) -> dict[int, RankTotals]:
    """Return sums by rank over [begin, end)."""
    dirty = rollup.load_dirty(snapshot)
    step_pieces, starved_pieces = (
        rollup.of_span(dirty, span, len(LEVELS) - 1, source) for source in ("steps", "gpu_waits")
    )
    within = rollup.Piece(None, *span).holds("request_ns") if span != WHOLE_RUN else "true"
    parts = []
    for piece in step_pieces:
        if piece.level is None:
            parts.append(
                "SELECT rank AS key, count(*) AS n, sum(advance)::DOUBLE AS steps, "
                "sum(wait_ns)::DOUBLE AS wait, sum(step_ns)::DOUBLE AS step FROM steps "
                f"WHERE counted = 1 AND {piece.holds('request_ns')} GROUP BY rank"
            )
        else:
            parts.append(
                "SELECT key, sum(n) AS n, sum(advance_sum) AS steps, sum(wait_ns_sum) AS wait, "
                "sum(step_ns_sum) AS step "
                f"FROM {piece.level.table('steps')} WHERE n > 0 AND {piece.holds('t_ns')} GROUP BY key"
            )
    boundary: dict[int, tuple[int, float]] = {}
    for rank, count, boundary_ns in snapshot.execute(
        f"""
        SELECT rank, sum(n), sum(spent) FROM (
          SELECT rank, count(*) AS n, sum(coalesce(iter_ns, 0))::DOUBLE AS spent
          FROM epoch_begins WHERE counted = 1 AND {within} GROUP BY rank
          UNION ALL
          SELECT rank, 0, sum(coalesce(teardown_ns, 0))::DOUBLE FROM epoch_ends\
 WHERE counted = 1 AND {within} GROUP BY rank
        ) GROUP BY rank HAVING rank IS NOT NULL -- a row may say anything
        """
    ).fetchall():
        boundary[rank] = (int(count), float(boundary_ns or 0.0))
    eval_batches: dict[int, int] = dict(
        snapshot.execute(
            "SELECT rank, count(*) FROM steps WHERE counted = 0 AND off_main_thread IS DISTINCT FROM 1 "
            f"AND {within} GROUP BY rank HAVING rank IS NOT NULL"
        ).fetchall()
    )
    starved_by_rank = _starved(snapshot, starved_pieces)
    result: dict[int, RankTotals] = {}
    rows = snapshot.execute(
        "SELECT key, sum(steps), sum(n), sum(wait), sum(step) "
        f"FROM ({' UNION ALL '.join(parts)}) GROUP BY key HAVING key IS NOT NULL ORDER BY key"
    ).fetchall()
    for key, steps, batches, wait, step in rows:
        epoch_count, boundary_ns = boundary.pop(key, (0, 0.0))
        device_batches, starved_s = starved_by_rank.get(key, (0, 0.0))
        result[key] = RankTotals(
            steps=int(steps or 0),
            batches=int(batches or 0),
            eval_batches=eval_batches.pop(key, 0),
            wait_s=float(wait or 0.0) / 1e9,
            step_s=float(step or 0.0) / 1e9,
            epochs=epoch_count,
            boundary_s=boundary_ns / 1e9,
            device_batches=device_batches,
            starved_s=starved_s,
        )
    for key in boundary.keys() | eval_batches.keys():
        epoch_count, boundary_ns = boundary.get(key, (0, 0.0))
        result[key] = RankTotals(0, 0, eval_batches.get(key, 0), 0.0, 0.0, epoch_count, boundary_ns / 1e9)
    return result


def along_path(snapshot: Snapshot, span: tuple[int, int]) -> PathTotals:
    """Return sums of what the slowest rank took in each iteration and epoch within [begin, end)."""
    return PathTotals({table: _longest(snapshot, table, span) for table in digests.ITERATION})


def _longest(snapshot: Snapshot, table: str, span: tuple[int, int]) -> tuple[float, int]:
    """Return the sum of the slowest ranks' seconds in a table's iterations (epochs), and their number."""
    duration, keys = digests.ITERATION[table]
    digest = PATHS.get(table)
    whole_sums, iterations = [], []
    for piece in [rollup.Piece(None, *span)] if digest is None else rollup.of_digest(snapshot, digest, span):
        if piece.level is None or digest is None:
            rows = f"{table} WHERE {digests.is_iteration(table)} AND {piece.holds('request_ns')}"
            iterations.append(f"SELECT {keys}, {duration}::DOUBLE AS longest FROM {rows}")
            continue
        kept = f"{piece.level.table(digest.name)} WHERE {piece.holds('t_ns')}"
        whole_sums.append(f"SELECT longest, number FROM {kept} AND loader = {digests.WHOLE}")
        iterations.append(f"SELECT {keys}, longest FROM {kept} AND loader <> {digests.WHOLE}")
    compared = (
        f"SELECT max(longest) AS longest, 1 AS number FROM ({' UNION ALL '.join(iterations)}) GROUP BY {keys}"
    )
    longest_ns, number = snapshot.execute(
        "SELECT coalesce(sum(longest), 0)::DOUBLE, coalesce(sum(number), 0) "
        f"FROM ({' UNION ALL '.join([*whole_sums, compared])})"
    ).fetchall()[0]
    return float(longest_ns) / 1e9, int(number)


def _starved(snapshot: Snapshot, pieces: Sequence[rollup.Piece]) -> dict[int, tuple[int, float]]:
    """Return, by rank, how many batches have a CUDA event, and how long the device lacked data, in s."""
    parts = [
        "SELECT rank AS key, count(starved_ns) AS n, sum(starved_ns)::DOUBLE AS starved FROM gpu_waits "
        f"WHERE counted = 1 AND {piece.holds('request_ns')} GROUP BY rank"
        if piece.level is None
        else "SELECT key, sum(starved_ns_n) AS n, sum(starved_ns_sum) AS starved "
        f"FROM {piece.level.table('gpu_waits')} WHERE {piece.holds('t_ns')} GROUP BY key"
        for piece in pieces
    ]
    rows = snapshot.execute(
        f"SELECT key, sum(n), sum(starved) FROM ({' UNION ALL '.join(parts)}) "
        "GROUP BY key HAVING key IS NOT NULL"
    ).fetchall()
    return {key: (int(count or 0), float(spent or 0.0) / 1e9) for key, count, spent in rows}
