"""A snapshot: one committed state of one run, queried in DuckDB's SQL."""

from __future__ import annotations

from typing import Any, Final, Protocol


class Answer(Protocol):
    """The rows of a query, to be fetched once by one of these methods. NULL is None, masked in arrays."""

    @property
    def description(self) -> list[Any]:
        """A tuple per column; it begins with the column's name."""

    def fetchone(self) -> Any:
        """Return the next row as a tuple; None if there is none."""

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Return the next rows as tuples, at most ``size``."""

    def fetchall(self) -> list[Any]:
        """Return the remaining rows as tuples."""

    def fetchnumpy(self) -> dict[str, Any]:
        """Return every column as an array by its name."""


class Snapshot(Protocol):
    """A run's tables (``store.schema``) at one moment. DuckDB's connection in a transaction is one."""

    def execute(self, query: Any, parameters: Any = None) -> Answer:
        """Run a query with ``parameters`` for its question marks. Errors are the database's own."""


COLUMNS: Final = "SELECT column_name FROM duckdb_columns() WHERE table_name = ?"


def columns_of(snapshot: Snapshot, table: str) -> set[str]:
    """Return a table's columns. An older file that is opened read-only may have fewer, or none."""
    return {name for (name,) in snapshot.execute(COLUMNS, [table]).fetchall()}
