"""The open file of one run: it stores rows, and gives a snapshot to each reader."""

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
# A checkpoint delays commits by about a third of a second whatever its size, so we make fewer: up to 90 MB of
# rows lie in memory between two of them. The rest of the limit is for charts of many ranks.
CONNECTION: Final[dict[str, str | bool | int | float | list[str]]] = {
    "checkpoint_threshold": "64MB",
    "threads": 2,
    "memory_limit": "160MB",
    "preserve_insertion_order": "false",
}
KEPT_MEMORY: Final = "32MB"
"""The limit that DuckDB is taken down to now and then. By itself it keeps every block that it ever wrote or read up to its
limit: a run of 64 ranks came there after an hour, 2 MB a minute."""
_LITTLE_LOG: Final = 8 * 2**20
"""Most bytes of the write-ahead log for that: its rows take somewhat more memory, and would go to a temporary file."""


class NotOurFile(Exception):
    """The file is a database, but not one of a run."""


class RunFile(OpenRun):
    """An open run. ``append``, ``roll`` and ``close`` exclude each other; readers see snapshots and never wait.

    After an error in ``append`` the object's memory may not match the file: drop the object and open the file again.
    """

    def __init__(self, path: Path, run_id: str, read_only: bool = False) -> None:
        """Open or create the file.

        Raises:
            duckdb.Error: the file is damaged, locked, or the disk refuses.
            NotOurFile: it holds other tables than a run's.
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
        """Store what is known of such a run when all of it is there, and sum it up."""
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
            self._connection.execute(
                "CHECKPOINT"
            )  # closing would leave the log on a full disk, and say nothing

    def _insert(self, table: str, arrays: Columns) -> None:
        batch = dict(arrays)  # DuckDB finds the variable by its name
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
        """Bring rollups up to date, as far as the deadline of this thread lets sums begin; return how many buckets were summed.

        Raises:
            Stopped: a sum took longer than the deadline; a later one will be of less.
        """
        with self.lock:
            if self._acked_rows > COMPACT_ACKED_ROWS:
                self._compact_acked()
            longest = CURRENT.get()
            with nullcontext() if longest is None else longest.interrupting(self._connection.interrupt):
                done = self._roll(longest)
            self.changed = done > 0
            return done

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
        sequences = {stream: seen.intervals() for stream, seen in self._streams.items()}
        with self._commit() as insert:
            self._connection.execute("DELETE FROM acked")
            self._acked_rows = 0
            insert("acked", acked_columns(sequences, self.newest_ns, self.received_ns, self.first_ns))

    def give_back(self) -> bool:
        """Return memory to the system: blocks that are on disk, and what the allocator holds free. This takes about 10 ms.

        Nobody may read meanwhile, because a query that needs more than ``KEPT_MEMORY`` would fail. The result is False when
        this has to wait for the next checkpoint.
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
        """Give queries that all see the same committed state, until the deadline of who asks.

        Raises:
            Stopped
        """
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
    """Return a file's size; 0 without one, which a checkpoint makes of the log at any moment."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _value(name: str, array: NDArray[Any]) -> str:
    """Return the column's expression in a SELECT, with UNKNOWN as NULL. (NaN becomes NULL by itself.)

    A masked array would not do: DuckDB before 2.0, the newest for Python 3.10, ignores the mask. Each expression costs
    planning time in each insert, so only columns with unknown values have one.
    """
    if array.dtype.kind == "i" and (array == UNKNOWN).any():
        return f'nullif("{name}", {UNKNOWN})'
    return f'"{name}"'
