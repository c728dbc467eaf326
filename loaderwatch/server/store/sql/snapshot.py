"""What the queries of charts and rows are run on: one committed state of one run, asked in DuckDB's SQL."""

from __future__ import annotations

from typing import Any, Final, Protocol


class Answer(Protocol):
    """The rows that a query gave, to be fetched once, in one of these ways. NULL is None, and masked in arrays."""

    @property
    def description(self) -> list[Any]:
        """A tuple for each column, which begins with its name."""

    def fetchone(self) -> Any:
        """Return the next row as a tuple; None when there is none."""

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Return the next rows as tuples, at most ``size``."""

    def fetchall(self) -> list[Any]:
        """Return the rows that are left as tuples."""

    def fetchnumpy(self) -> dict[str, Any]:
        """Return every column as an array by its name."""


class Snapshot(Protocol):
    """A run's tables (``store.schema``) as they were at one moment. DuckDB's connection in a transaction is one."""

    def execute(self, query: Any, parameters: Any = None) -> Answer:
        """Run a query; ``parameters`` are the values of its question marks.

        Raises:
            Exception: the database's own error.
        """


COLUMNS: Final = "SELECT column_name FROM duckdb_columns() WHERE table_name = ?"


def columns_of(snapshot: Snapshot, table: str) -> set[str]:
    """Return the columns that a table has: fewer, or none, in a file of an older version, which may not be changed."""
    return {name for (name,) in snapshot.execute(COLUMNS, [table]).fetchall()}
