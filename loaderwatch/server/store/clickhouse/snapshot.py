"""One committed state of one run, for the SQL of ``store.sql.charts`` and ``store.sql.row_queries``.

ClickHouse understands nearly all of DuckDB's SQL; ``_SPELLINGS`` has the rest. ``WITH steps AS (…)`` in
front of a query narrows its tables to the run and its commits. This costs nothing: conditions reach the
table's index through it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import DIGEST_TABLES, STORED, SUMMED
from loaderwatch.server.store.metrics import DIGESTS, LEVELS
from loaderwatch.server.store.schema import REPLACED
from loaderwatch.server.store.sql.open_run import objects
from loaderwatch.server.store.sql.snapshot import COLUMNS

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


_SPELLINGS: Final = (
    (re.compile(r" // "), " DIV "),
    (re.compile(r"\bunnest\("), "arrayJoin("),
    (re.compile(r"\bbool_and\("), "min("),
    (re.compile(r"\bmedian\("), "quantileExactInclusive(0.5)("),
    (re.compile(r"\bAS MATERIALIZED \("), "AS ("),
    (re.compile(r"(\w+) & (\d+)"), r"bitAnd(\1, \2)"),
)
_COUNT: Final = re.compile(r"SELECT count\(\*\) FROM (\w+)")
_LITERAL: Final = re.compile(r"('(?:[^']|'')*')")
_NAMED: Final = re.compile(r"\b(?:FROM|JOIN) \"?(\w+)\"?")
_BYTES: Final = ("body",)
_WITH_DIGESTS: Final = ", ".join(
    f"({LEVELS.index(level)}, '{digest.source}')" for digest in DIGESTS for level in digest.levels
)
_KEPT_VALUES: Final = 100_000  # the largest answer that is cached


class Gaps:
    """The commits of a run up to ``head`` that never became whole, as inclusive intervals.

    ``replaced_from`` is the lowest number that counts for replacing rows (``claims.py``).
    """

    def __init__(self, head: int, void: Sequence[tuple[int, int]] = (), replaced_from: int = 0) -> None:
        self.head = head
        self.void = tuple(void)
        self.replaced_from = replaced_from

    @property
    def condition(self) -> str:
        """The condition that a row belongs to a whole commit."""
        return " AND ".join(
            [f"commit <= {self.head}", *(f"NOT (commit BETWEEN {low} AND {high})" for low, high in self.void)]
        )


class ClickHouseSnapshot:
    """A ``store.sql.snapshot.Snapshot``."""

    def __init__(self, database: Database, run_id: str, commits: Gaps) -> None:
        self._database = database
        self._run_id = run_id
        self._commits = commits
        self._answered: dict[str, dict[str, NDArray[Any]]] = {}
        """Earlier answers, which are still valid: a chart reads some small tables several times."""
        self._stored: dict[str, int] | None = None  # rows by table

    def execute(self, query: str, parameters: Sequence[Any] | None = None) -> ClickHouseAnswer:
        """Run a query."""
        if (count := self._count_of(query)) is not None:
            return ClickHouseAnswer(self._database, query, {"count": np.array([count])})
        given = list(parameters or ())
        if query == COLUMNS:  # ``prepare`` created them all
            names = objects([name.encode() for name in STORED[given[0]].columns])
            return ClickHouseAnswer(self._database, query, {"column_name": names})
        sql = self._scoped(query, given)
        columns = self._answered.get(sql)
        if columns is None:
            columns = self._database.query(sql)
            if sum(map(len, columns.values())) <= _KEPT_VALUES:
                self._answered[sql] = columns
        return ClickHouseAnswer(self._database, sql, columns)

    def insert(self, into: str, query: str) -> None:
        """Insert the rows of a query."""
        self._database.command(f"{into} {self._scoped(query, [])}", like_duckdb=True)

    def _count_of(self, query: str) -> int | None:
        """Return the answer to a bare row count, which ClickHouse knows without reading; else None.

        The count includes rows of incomplete commits and replaced rows. It is only used to plan charts.
        """
        match = _COUNT.fullmatch(query)
        if match is None or match[1] not in STORED:
            return None
        if self._stored is None:
            counts = self._database.rows(
                "SELECT table, sum(rows) AS stored FROM system.parts "
                f"WHERE active AND database = {text(self._database.name)} "
                f"AND partition = {text(self._run_id)} GROUP BY table"
            )
            self._stored = {table.decode(): int(stored) for table, stored in counts}
        return self._stored.get(match[1], 0)

    def _scoped(self, query: str, parameters: list[Any]) -> str:
        """Return a query in ClickHouse's SQL, with its tables narrowed to the run and its whole commits."""
        pieces = _LITERAL.split(query)  # code and string literals in turns
        code = " ".join(pieces[::2])
        pieces[::2] = [self._spelled(piece, parameters) for piece in pieces[::2]]
        pieces[1::2] = [text(piece[1:-1].replace("''", "'")) for piece in pieces[1::2]]
        named = [name for name in dict.fromkeys(_NAMED.findall(code)) if name in STORED]
        scopes = ", ".join(f"{name} AS ({self._rows_of(name)})" for name in named)
        sql = "".join(pieces)
        return f"WITH {scopes} {sql}" if scopes else sql

    def _spelled(self, code: str, parameters: list[Any]) -> str:
        """Return code without string literals as ClickHouse spells it."""
        for pattern, spelling in _SPELLINGS:
            code = pattern.sub(spelling, code)
        for value in parameters:
            code = code.replace("?", text(str(value)), 1)
        return code

    def _rows_of(self, name: str) -> str:
        table = STORED[name]
        ours = f"run = {text(self._run_id)}"
        stored = f"{self._database.name}.{name}"
        if name == "dirty":
            dirty = f"(clean = 0 OR clean < {SUMMED} AND (level, source) IN ({_WITH_DIGESTS}))"
            return f"SELECT level, source, t_ns FROM {stored} FINAL WHERE {ours} AND {dirty}"
        if name in REPLACED:
            ours += f" AND commit >= {self._commits.replaced_from}"
        if name in DIGEST_TABLES and DIGEST_TABLES[name].together:
            newest = f"SELECT t_ns, max(commit) FROM {stored} WHERE {ours} GROUP BY t_ns"
            return (
                f"SELECT * EXCEPT (run, commit) FROM {stored} FINAL "
                f"WHERE {ours} AND (t_ns, commit) IN ({newest})"
            )
        if table.replacing:
            return f"SELECT * EXCEPT (run, commit) FROM {stored} FINAL WHERE {ours}"
        return f"SELECT * EXCEPT (run, commit) FROM {stored} WHERE {ours} AND {self._commits.condition}"


class ClickHouseAnswer:
    """A ``store.sql.snapshot.Answer``."""

    def __init__(self, database: Database, sql: str, columns: dict[str, NDArray[Any]]) -> None:
        self._database = database
        self._sql = sql
        self._columns = {
            name: _decoded(values) if values.dtype == object and name not in _BYTES else values
            for name, values in columns.items()
        }
        self._next = 0

    @property
    def description(self) -> list[Any]:
        """A tuple per column; it begins with the column's name."""
        return [(name,) for name in self._columns]

    def fetchone(self) -> Any:
        """Return the next row."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Return the next rows."""
        begin, self._next = self._next, self._next + size
        columns = (values[begin : self._next].tolist() for values in self._columns.values())
        return list(zip(*columns, strict=True))

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        return self.fetchmany(2**62)

    def fetchnumpy(self) -> dict[str, Any]:
        """Return every column as an array by its name."""
        if not self._columns:  # without rows, ClickHouse sends no block and therefore no names
            names = self._database.rows(f"DESCRIBE ({self._sql})")
            return {name.decode(): np.empty(0) for name, *_ in names}
        return self._columns


def _decoded(values: NDArray[Any]) -> NDArray[Any]:
    decoded = np.empty(len(values), dtype=object)
    decoded[:] = [value.decode() for value in values]
    return decoded


def text(value: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
