"""The schema of a run's file. Other programs may read it; names and units are those of ``core.records``."""

from __future__ import annotations

from typing import Final

import duckdb

from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.server.store.metrics import DIGESTS, LEVELS, SOURCES, SPANS, Source

SCHEMA_VERSION: Final = 1
MARK: Final = "loaderwatch"

DERIVED: Final[dict[str, tuple[str, ...]]] = {
    # counted: 1 if the row belongs to a train loader and the training thread; advance: optimizer steps made.
    "steps": ("counted", "advance"),
    "fetches": ("counted",),
    "gpu_waits": ("counted",),
    "epoch_begins": ("counted",),
    "epoch_ends": ("counted",),
}
"""The BIGINT columns that the store adds to the tables of the wire format."""

SQL_TYPES: Final = {"i8": "BIGINT", "f8": "DOUBLE"}


def stored_columns(table: str) -> dict[str, str]:
    """Return a table's columns with their SQL types, in order."""
    columns = {c.name: SQL_TYPES[c.dtype] for c in TABLES[table]}
    columns.update(dict.fromkeys(DERIVED.get(table, ()), "BIGINT"))
    if table == "hosts":
        columns["host"] = "VARCHAR"
    return columns


def rollup_columns(source: Source) -> dict[str, str]:
    """Return the columns of a source's rollups with their SQL types."""
    columns = {"key": "VARCHAR" if source.key == "host" else "BIGINT", "t_ns": "BIGINT", "n": "BIGINT"}
    for measure in source.measures:
        columns[f"{measure}_n"] = "BIGINT"
        columns.update({f"{measure}_{statistic}": "DOUBLE" for statistic in ("sum", "min", "max")})
    if source.spans:
        columns.update(dict.fromkeys(SPANS, "DOUBLE"))
    return columns


_OTHERS: Final[dict[str, dict[str, str]]] = {
    "about": {"mark": "VARCHAR", "version": "BIGINT"},
    # Copies of steps longer than a query's lookback, so that no query has to search for them.
    "long_steps": {"rank": "BIGINT", "request_ns": "BIGINT", "wait_ns": "BIGINT", "step_ns": "BIGINT"},
    # Stored envelopes, as inclusive intervals of their sequence numbers.
    "acked": {
        "stream": "VARCHAR",
        "low": "BIGINT",
        "high": "BIGINT",
        "made_ns": "BIGINT",
        "received_ns": "BIGINT",
        "first_ns": "BIGINT",
    },
    # What envelopes carry besides rows: zlib-compressed MessagePack envelopes.
    "events": {"ordinal": "BIGINT", "t_ns": "BIGINT", "facts": "BOOLEAN", "lost": "BIGINT", "body": "BLOB"},
    # The texts that the column ``stack`` of the table "profile" names, each once: zlib-compressed UTF-8.
    "profile_stacks": {"stack": "BIGINT", "body": "BLOB"},
    # Buckets whose rollup does not hold all rows.
    "dirty": {"level": "BIGINT", "source": "VARCHAR", "t_ns": "BIGINT"},
    "alerts": {
        "id": "VARCHAR",
        "finding": "VARCHAR",
        "state": "VARCHAR",
        "opened_ns": "BIGINT",
        "updated_ns": "BIGINT",
        "closed_ns": "BIGINT",
        "silenced_until_ns": "BIGINT",
    },
    # The labels that people gave the run, as one row: JSON of ``core.answers.Labels``.
    "labels": {"said": "VARCHAR"},
}

REPLACED: Final[dict[str, str | None]] = {"alerts": "id", "labels": None}
"""Tables whose rows are replaced, with their key. None: the table has one row."""


def all_tables() -> dict[str, dict[str, str]]:
    """Return every table of a run's file with its columns' SQL types."""
    tables = {name: stored_columns(name) for name in TABLES}
    tables.update(_OTHERS)
    for name, source in SOURCES.items():
        for level in LEVELS:
            tables[level.table(name)] = rollup_columns(source)
    for digest in DIGESTS:
        for level in digest.levels:
            tables[level.table(digest.name)] = digest.columns
    return tables


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Create missing tables and columns, which brings a file of an older version up to date.

    Rollups that lack a column or a digest are marked dirty, so that the new charts cover the whole run.
    """
    existing: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'main'"
    ).fetchall():
        existing.setdefault(table, set()).add(column)
    for table, columns in all_tables().items():
        if table not in existing:
            declared = ", ".join(f'"{name}" {kind}' for name, kind in columns.items())
            connection.execute(f'CREATE TABLE "{table}" ({declared})')
            continue
        for name, kind in columns.items():
            if name not in existing[table]:
                connection.execute(f'ALTER TABLE "{table}" ADD COLUMN "{name}" {kind}')
    for name, source in SOURCES.items():
        for index, level in enumerate(LEVELS):
            table = level.table(name)
            digests = [d.name for d in DIGESTS if d.source == name and level in d.levels]
            if table not in existing:
                continue
            if any(level.table(digest) not in existing for digest in digests):
                # Buckets are found by rows: there are no sums of rows that the source leaves out.
                connection.execute(
                    f"INSERT INTO dirty SELECT DISTINCT {index}, '{name}', "
                    f"{source.time} // {level.ns} * {level.ns} "
                    f"FROM {source.table} WHERE {source.time} IS NOT NULL"
                )
            elif not existing[table].issuperset(rollup_columns(source)):
                connection.execute(
                    f"INSERT INTO dirty SELECT DISTINCT {index}, '{name}', t_ns "
                    f"FROM {table} WHERE t_ns IS NOT NULL"
                )
    if "about" not in existing:
        connection.execute("INSERT INTO about VALUES (?, ?)", [MARK, SCHEMA_VERSION])


def version_of(connection: duckdb.DuckDBPyConnection) -> int | None:
    """Return the schema version of an open file: 0 if it is empty, None if it is not one of ours."""
    names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    if not names:
        return 0
    if "about" not in names:
        return None
    row = connection.execute("SELECT version FROM about WHERE mark = ?", [MARK]).fetchone()
    return None if row is None else int(row[0])


def time_column(table: str) -> str:
    """Return the column that places a row in time."""
    return TIME_COLUMN[table]
