"""The partitions of runs, one in each table: how many bytes they take, and how they are dropped."""

from __future__ import annotations

from typing import Final

from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import STORED
from loaderwatch.server.store.clickhouse.snapshot import text

_LAST: Final = ("acked", "cards", "claims")
"""Tables that say that a run is there: they go last, so that a deletion that was cut short can be done again."""


def sizes(database: Database) -> dict[str, int]:
    """Return how many bytes each run takes on disk."""
    rows = database.rows(
        "SELECT partition, sum(bytes_on_disk) AS bytes FROM system.parts "
        f"WHERE active AND database = {text(database.name)} GROUP BY partition"
    )
    return {partition.decode(): int(size) for partition, size in rows}


def stored_runs(database: Database) -> set[str]:
    """Return every run of which there is a commit."""
    rows = database.rows(
        f"SELECT DISTINCT partition FROM system.parts WHERE active AND database = {text(database.name)} AND table = 'acked'"
    )
    return {partition.decode() for (partition,) in rows}


def drop(database: Database, run_id: str) -> None:
    """Delete all that is stored of a run."""
    held = {
        table.decode()
        for (table,) in database.rows(
            f"SELECT DISTINCT table FROM system.parts WHERE active AND database = {text(database.name)}"
            f" AND partition = {text(run_id)}"
        )
    }
    for table in sorted(held & STORED.keys(), key=lambda table: _LAST.index(table) if table in _LAST else -1):
        database.command(f"ALTER TABLE {database.name}.{table} DROP PARTITION {text(run_id)}")
