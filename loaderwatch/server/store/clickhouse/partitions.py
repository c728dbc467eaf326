"""The partitions of runs, one per table: their sizes, and how to drop them."""

from __future__ import annotations

from typing import Final

from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import STORED
from loaderwatch.server.store.clickhouse.snapshot import text

_LAST: Final = ("acked", "cards", "claims")
"""Tables that show that a run exists. They go last, so that an interrupted deletion can be repeated."""


def sizes(database: Database) -> dict[str, int]:
    """Return the bytes that each run takes on disk."""
    rows = database.rows(
        "SELECT partition, sum(bytes_on_disk) AS bytes FROM system.parts "
        f"WHERE active AND database = {text(database.name)} GROUP BY partition"
    )
    return {partition.decode(): int(size) for partition, size in rows}


def stored_runs(database: Database) -> set[str]:
    """Return every run with a commit."""
    rows = database.rows(
        "SELECT DISTINCT partition FROM system.parts "
        f"WHERE active AND database = {text(database.name)} AND table = 'acked'"
    )
    return {partition.decode() for (partition,) in rows}


def drop(database: Database, run_id: str) -> None:
    """Delete everything that is stored for a run."""
    held = {
        table.decode()
        for (table,) in database.rows(
            f"SELECT DISTINCT table FROM system.parts WHERE active AND database = {text(database.name)}"
            f" AND partition = {text(run_id)}"
        )
    }
    for table in sorted(held & STORED.keys(), key=lambda table: _LAST.index(table) if table in _LAST else -1):
        database.command(f"ALTER TABLE {database.name}.{table} DROP PARTITION {text(run_id)}")
