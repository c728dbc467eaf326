"""The tables in ClickHouse: those of a run's file, for all runs together.

A row also has its ``run`` and its ``commit``'s number. The run is the partition, so that deleting a run
drops files instead of rewriting them. No transaction spans tables, so queries read only whole commits
(``snapshot.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.server.store import schema
from loaderwatch.server.store.clickhouse.database import RIGHTS, Database, Unreachable
from loaderwatch.server.store.metrics import DIGESTS, LEVELS, SOURCES
from loaderwatch.server.store.protocol import StoreError

SCHEMA_VERSION: Final = 3
DEDUPLICATED_BLOCKS: Final = 1000
"""How many blocks' tokens ClickHouse remembers per table. A block is sent again within a second or never."""

_TYPES: Final = {
    "BIGINT": "Nullable(Int64)",
    "DOUBLE": "Nullable(Float64)",
    "VARCHAR": "String",
    "BLOB": "String",
    "BOOLEAN": "Bool",
}
_ASCENDING: Final = (
    "request_ns",
    "t_ns",
    "batch",
    "step",
    "made_ns",
    "received_ns",
    "ordinal",
    "low",
    "high",
)
_KEYS: Final = {
    "long_steps": ("rank", "request_ns"),
    "acked": ("stream", "low"),
    "events": ("ordinal",),
    "profile_stacks": ("stack",),
    "dirty": ("level", "source", "t_ns"),
    **{table: () if key is None else (key,) for table, key in schema.REPLACED.items()},
}


@dataclass(frozen=True)
class Table:
    """A table in ClickHouse. If it is ``replacing``, the row with the highest ``commit`` counts per key."""

    name: str
    columns: dict[str, str]  # with run and commit
    key: tuple[str, ...]  # after run
    replacing: bool

    def create(self, database: Database) -> str:
        """Return the statement that creates the table."""
        columns = ", ".join(f'"{name}" {kind}{_codec(name, kind)}' for name, kind in self.columns.items())
        engine = database.engine("ReplacingMergeTree(commit)" if self.replacing else "MergeTree")
        return (
            f"CREATE TABLE IF NOT EXISTS {database.name}.{self.name} ({columns}) "
            f"ENGINE = {engine} PARTITION BY run ORDER BY ({', '.join(('run', *self.key))}) "
            f"SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = {DEDUPLICATED_BLOCKS}"
        )


def _codec(name: str, kind: str) -> str:
    if name == "commit" or name in _ASCENDING:
        return " CODEC(Delta, ZSTD(1))"
    return " CODEC(T64, ZSTD(1))" if "Int64" in kind else " CODEC(ZSTD(1))"


SUMMED: Final = 2
"""The value of ``clean`` for a summed bucket. Before schema 3 it was 1, and there were no digests."""
DIGEST_TABLES: Final = {level.table(digest.name): digest for digest in DIGESTS for level in digest.levels}


def _tables() -> dict[str, Table]:
    tables = {}
    rollups = {level.table(name) for name in SOURCES for level in LEVELS}
    for name, columns in schema.all_tables().items():
        if name == "about":
            continue
        types = {"run": "LowCardinality(String)", "commit": "UInt64"}
        types |= {column: _TYPES[kind] for column, kind in columns.items()}
        if name in rollups:  # counts: ClickHouse does not add them to signed numbers
            types |= {column: "UInt64" for column in columns if column == "n" or column.endswith("_n")}
        if name == "acked":
            types["after"] = "UInt64"  # the commit before this one
        if name == "dirty":
            types["clean"] = "UInt8"
        if name in TABLES:
            key: tuple[str, ...] = tuple(c for c in ("rank", TIME_COLUMN[name]) if c in columns)
        elif name in DIGEST_TABLES:
            key = DIGEST_TABLES[name].key
        else:
            key = ("key", "t_ns") if name in rollups else _KEYS[name]
        replacing = {*rollups, *DIGEST_TABLES, "dirty", *schema.REPLACED}
        tables[name] = Table(name, types, key, name in replacing)
    tables["cards"] = Table(
        "cards", {"run": "LowCardinality(String)", "commit": "UInt64", "card": "String"}, (), True
    )
    tables["claims"] = Table(
        "claims",
        {"run": "LowCardinality(String)", "commit": "UInt64", "claimant": "String", "ready": "UInt8"},
        ("commit",),
        False,
    )
    return tables


STORED: Final = _tables()
"""Every table of runs. ``cards``: list entries, JSON of StoredRun. ``claims``: see ``claims.py``."""


def prepare(database: Database) -> None:
    """Create what the database lacks: itself, its tables and their columns.

    Raises:
        ConfigError: a newer loaderwatch created it, or a right is missing.
        StoreError: the server does not answer, or refuses.
    """
    name = database.name
    engines = database.rows(f"SELECT engine FROM system.databases WHERE name = '{name}'")
    database.replicated = engines == [(b"Replicated",)]
    if not engines:
        _permitted(database, f"CREATE DATABASE IF NOT EXISTS {name}", "CREATE DATABASE")
    for right, where in (*((right, f"{name}.*") for right in RIGHTS), ("SELECT", "system.parts")):
        ((granted,),) = database.rows(f"CHECK GRANT {right} ON {where}")
        if not granted:
            raise ConfigError(
                f"the user {database.address.user!r} of ClickHouse may not {right} on {where}: "
                f"{database.grant()}"
            )
    database.command(
        f"CREATE TABLE IF NOT EXISTS {name}.about (mark String, version UInt32)"
        f" ENGINE = {database.engine('MergeTree')} ORDER BY version"
    )
    ((version,),) = database.rows(f"SELECT max(version) AS version FROM {name}.about")
    if version is not None and version > SCHEMA_VERSION:
        raise ConfigError(
            f"{database.address} was made by a newer loaderwatch (schema {version}; this one knows "
            f"{SCHEMA_VERSION}): upgrade this server, or give --store another database"
        )
    existing_columns: dict[str, set[str]] = {}
    for table, column in database.rows(f"SELECT table, name FROM system.columns WHERE database = '{name}'"):
        existing_columns.setdefault(table.decode(), set()).add(column.decode())
    for table_schema in STORED.values():
        if table_schema.name not in existing_columns:
            database.command(table_schema.create(database))
            continue
        for column, kind in table_schema.columns.items():
            if column not in existing_columns[table_schema.name]:
                codec = _codec(column, kind)
                database.command(
                    f"ALTER TABLE {name}.{table_schema.name} "
                    f"ADD COLUMN IF NOT EXISTS `{column}` {kind}{codec}"
                )
    if version is None or version < SCHEMA_VERSION:
        database.command(f"INSERT INTO {name}.about VALUES ('{schema.MARK}', {SCHEMA_VERSION})")
    database.note_tables()


def _permitted(database: Database, statement: str, right: str) -> None:
    try:
        database.command(statement)
    except Unreachable:
        raise
    except StoreError as error:
        raise ConfigError(
            f"there is no database {database.name} at {database.address}, and it cannot be made: make it, or "
            f"GRANT {right} ON {database.name}.* TO {database.address.user} ({error})"
        ) from None
