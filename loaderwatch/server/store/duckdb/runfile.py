"""The open file of one run: stores rows, and gives each reader a snapshot."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import duckdb
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.records import UNKNOWN
from loaderwatch.server.store import schema
from loaderwatch.server.store.deadline import CURRENT, Deadline
from loaderwatch.server.store.metrics import LEVELS, SOURCES
from loaderwatch.server.store.protocol import Rest
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.open_run import Insert, OpenRun, acked_columns
from loaderwatch.server.store.sql.snapshot import Snapshot

COMPACT_ACKED_ROWS: Final = 20_000
# A checkpoint of any size delays commits by about a third of a second. So there are few: up to 90 MB of rows
# are in memory between two. The rest of the limit is for charts of many ranks.
CONNECTION: Final[dict[str, str | bool | int | float | list[str]]] = {
    "checkpoint_threshold": "64MB",
    "threads": 2,
    "memory_limit": "160MB",
    "preserve_insertion_order": "false",
}
KEPT_MEMORY: Final = "32MB"
"""The limit to which DuckDB's memory is reduced from time to time. Otherwise it keeps every block up to its
limit, which a run of 64 ranks reached after an hour, at 2 MB a minute."""
_LITTLE_LOG: Final = 8 * 2**20
"""Above this size of the write-ahead log, memory is not reduced: its rows would go to a temporary file."""


class NotOurFile(Exception):
    """The file is a database, but not of a run."""


class RunFile(OpenRun):
    """An open run. ``append``, ``roll`` and ``close`` exclude each other; readers use snapshots, never wait.

    After an error in ``append``, memory may differ from the file: drop the object and open the file again.
    """

    def __init__(self, path: Path, run_id: str, read_only: bool = False) -> None:
        """Open or create the file.

        Raises:
            duckdb.Error: the file is damaged, locked, or the disk refuses.
            NotOurFile: its tables are not a run's.
        """
        super().__init__(run_id)
        self.path = path
        self._wal = path.with_name(path.name + ".wal")
        self.written_s = -math.inf  # when envelopes were stored last
        self.given_back_s = time.monotonic()
        self._connection = duckdb.connect(str(path), read_only=read_only, config=CONNECTION)
        try:
            version = schema.version_of(self._connection)
            if version is None or version > schema.SCHEMA_VERSION:
                raise NotOurFile(f"schema version {version}")
            if not read_only:
                self._connection.execute("BEGIN")
                schema.create(self._connection)
                self._connection.execute("COMMIT")
            self._load(self._connection)
        except BaseException:
            self._connection.close()
            raise

    def _load(self, snapshot: Snapshot) -> None:
        super()._load(snapshot)
        self._acked_rows = int(snapshot.execute("SELECT count(*) FROM acked").fetchall()[0][0])
        self._rolled_until = {
            (index, name): int(until or 0) + level.ns
            for index, level in enumerate(LEVELS)
            for name in SOURCES
            for (until,) in snapshot.execute(f"SELECT max(t_ns) FROM {level.table(name)}").fetchall()
        }

    # -- writing

    @contextmanager
    def _commit(self) -> Iterator[Insert]:
        self._connection.execute("BEGIN")
        yield self._insert
        self._connection.execute("COMMIT")
        self.used_s = time.monotonic()

    def conclude(self, rest: Rest) -> None:
        """Store the rest of an import after all its parts, and sum the run."""
        with self.lock:
            self.newest_ns, self.first_ns, self.received_ns = rest.newest_ns, rest.first_ns, rest.received_ns
            self._streams = {}
            for stream, intervals in rest.sequences.items():
                self._streams.setdefault(stream, SequenceSet()).extend(intervals)
            self._compact_acked()
            self.save_alerts(rest.alerts)
            self.label(rest.labels)
            while self.roll():
                pass
            # On a full disk, closing would leave the log, and report nothing.
            self._connection.execute("CHECKPOINT")

    def _insert(self, table: str, arrays: Columns) -> None:
        batch = dict(arrays)  # DuckDB finds this variable by its name
        names = ", ".join(f'"{name}"' for name in batch)
        values = ", ".join(_value(name, array) for name, array in batch.items())
        self._connection.execute(f'INSERT INTO "{table}" ({names}) SELECT {values} FROM batch')
        if table == "acked":
            self._acked_rows += len(batch["stream"])
            self.written_s = time.monotonic()

    def _replace(self, table: str, columns: Columns) -> None:
        key = schema.REPLACED[table]
        batch = dict(columns)  # likewise
        replaced = f"WHERE {key} IN (SELECT {key} FROM batch)" if key else ""
        with self.lock, self._commit() as insert:
            self._connection.execute(f"DELETE FROM {table} {replaced}")
            insert(table, batch)
            self.changed = True

    def roll(self) -> int:
        """Update rollups until this thread's deadline lets no more sums begin; return the number of buckets.

        Raises:
            Stopped: a sum exceeded the deadline. The next one will be smaller.
        """
        with self.lock:
            if self._acked_rows > COMPACT_ACKED_ROWS:
                self._compact_acked()
            longest = CURRENT.get()
            with nullcontext() if longest is None else longest.interrupting(self._connection.interrupt):
                buckets_summed = self._roll(longest)
            self.changed = buckets_summed > 0
            return buckets_summed

    def _roll(self, longest: Deadline | None) -> int:
        try:
            return rollup.roll(
                self._connection,
                self._dirty,
                self.newest_ns,
                self._rolled_until,
                self.facts.most_ranks,
                self._pace,
            )
        except duckdb.InterruptException:
            self._connection.execute("ROLLBACK")
            self._pace.interrupted()
            if longest is not None:
                longest.check()
            raise

    def _compact_acked(self) -> None:
        sequences = {stream: numbers.intervals() for stream, numbers in self._streams.items()}
        with self._commit() as insert:
            self._connection.execute("DELETE FROM acked")
            self._acked_rows = 0
            insert("acked", acked_columns(sequences, self.newest_ns, self.received_ns, self.first_ns))

    def give_back(self) -> bool:
        """Return memory to the system: blocks that are on disk, and the allocator's free memory (10 ms).

        Nobody may read meanwhile: a query that needs more than ``KEPT_MEMORY`` would fail. The result is
        False if this has to wait for the next checkpoint.
        """
        with self.lock:
            if _size(self._wal) > _LITTLE_LOG:
                return False
            try:
                self._connection.execute(f"SET memory_limit = '{KEPT_MEMORY}'")  # evicts at once
            except duckdb.OutOfMemoryException:
                return False
            finally:
                self._connection.execute(f"SET memory_limit = '{CONNECTION['memory_limit']}'")
        self.given_back_s = time.monotonic()
        return True

    def close(self) -> None:
        """Write everything into the one file and close it."""
        with self.lock:
            self._connection.close()

    # -- reading

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """Give a snapshot of one committed state. Its queries raise Stopped at the caller's deadline."""
        cursor = self._connection.cursor()
        deadline = CURRENT.get()
        try:
            if deadline is None:
                cursor.execute("BEGIN")
                yield cursor
                return
            with deadline.interrupting(cursor.interrupt):
                cursor.execute("BEGIN")
                yield cursor
        except duckdb.InterruptException:
            if deadline is not None:
                deadline.check()
            raise
        finally:
            cursor.close()
            self.used_s = time.monotonic()

    def _bytes(self) -> int:
        return _size(self.path) + _size(self._wal)


def _size(path: Path) -> int:
    """Return a file's size; 0 if it does not exist. A checkpoint may remove the log at any moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _value(name: str, array: NDArray[Any]) -> str:
    """Return the column's expression in a SELECT, with UNKNOWN as NULL. (NaN becomes NULL by itself.)

    Masked arrays do not work: DuckDB before 2.0, the newest for Python 3.10, ignores the mask. Only columns
    with unknown values get an expression, because each one costs planning time in each insert.
    """
    if array.dtype.kind == "i" and (array == UNKNOWN).any():
        return f'nullif("{name}", {UNKNOWN})'
    return f'"{name}"'
