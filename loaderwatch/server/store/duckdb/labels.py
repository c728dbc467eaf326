"""What people have said of a run, in the run's own file."""

from __future__ import annotations

from typing import Any

import duckdb
import msgspec

from loaderwatch.core.answers import Labels
from loaderwatch.core.wire import decode_json


def read(connection: duckdb.DuckDBPyConnection) -> Labels:
    """Return what the file says; of a file from before there were labels nobody has said anything."""
    there = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'labels'").fetchone()
    row = connection.execute("SELECT said FROM labels").fetchone() if there else None
    return Labels() if row is None else decode_json(row[0], Labels)


def statements(labels: Labels) -> list[tuple[str, list[Any]]]:
    """Return the statements that replace what the file says."""
    return [
        ("DELETE FROM labels", []),
        ("INSERT INTO labels VALUES (?)", [msgspec.json.encode(labels).decode()]),
    ]
