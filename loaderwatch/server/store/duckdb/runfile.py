"""The open file of one run: it stores rows, and gives a snapshot to each reader."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import wall_ns
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store import rows, schema
from loaderwatch.server.store.deadline import CURRENT, Deadline
from loaderwatch.server.store.duckdb import labels
from loaderwatch.server.store.facts import unpack_event
from loaderwatch.server.store.metrics import LEVELS, SOURCES
from loaderwatch.server.store.protocol import Rest, StoredAlert
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.open_run import (
    LAST_EVENTS,
    Event,
    OpenRun,
    acked_columns,
    event_columns,
    fresh_columns,
    objects,
)
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
        self.used_s = time.monotonic()
        self.written_s = -math.inf
        self.given_back_s = time.monotonic()
        self.readers = 0
        self.changed = False  # something was stored since housekeeping last had nothing to do
        self._connection = duckdb.connect(str(path), read_only=read_only, config=CONNECTION)
        try:
            version = schema.version_of(self._connection)
            if version is None or version > schema.SCHEMA_VERSION:
                raise NotOurFile(f"schema version {version}")
            if not read_only:
                self._connection.execute("BEGIN")
                schema.create(self._connection)
                self._connection.execute("COMMIT")
            self._load()
        except BaseException:
            self._connection.close()
            raise

    def _load(self) -> None:
        run = self._connection.execute
        for (body,) in run("SELECT body FROM events WHERE facts ORDER BY ordinal").fetchall():
            self.facts.take(unpack_event(body))
        last, lost = run("SELECT max(ordinal), sum(lost) FROM events").fetchall()[0]
        self._ordinal = (last or 0) + 1
        self.lost_records = int(lost or 0)
        acked = run("SELECT stream, low, high FROM acked ORDER BY stream, low").fetchall()
        for stream, low, high in acked:
            self._streams.setdefault(stream, SequenceSet()).add(low, high)
        self._acked_rows = len(acked)
        newest, received, first = run(
            "SELECT max(made_ns), max(received_ns), min(first_ns) FROM acked"
        ).fetchall()[0]
        self.newest_ns = int(newest or 0)
        self.received_ns = int(received or self.received_ns)
        self.first_ns = int(first or 0)
        self._dirty = rollup.load_dirty(self._connection)
        self._rolled_until = {
            (index, name): int(until or 0) + level.ns
            for index, level in enumerate(LEVELS)
            for name in SOURCES
            for (until,) in run(f"SELECT max(t_ns) FROM {level.table(name)}").fetchall()
        }
        newest = f"SELECT body FROM events ORDER BY ordinal DESC LIMIT {LAST_EVENTS}"
        self._open_waits = self._last_waits(lambda: (body for (body,) in run(newest).fetchall()))
        self._labels = labels.read(self._connection)
        self._card = self._draw_card()

    # -- writing

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store the envelopes that are new, in one transaction; return them."""
        with self.lock:
            fresh = self._fresh(envelopes)
            if not fresh:
                return []
            now = wall_ns()
            events = [event for e in fresh if (event := self._event(e))]
            tables = rows.gather(fresh, self.facts)
            firsts = [rows.first_time(e) for e in fresh]
            acked = fresh_columns(fresh, firsts) | {"received_ns": np.full(len(fresh), now)}
            self._commit(tables, events, acked)
            self.newest_ns = max(self.newest_ns, *(e.made_ns for e in fresh))
            self.first_ns = min(self.first_ns or firsts[0], *firsts)
            self.received_ns = now
            self._acked_rows += len(fresh)
            self.used_s = self.written_s = time.monotonic()
            self.changed = True
            for each in fresh:
                self._note_open_waits(each)
            if any(facts for _, _, facts, _, _ in events):
                self._card = self._draw_card()
            return fresh

    def _commit(
        self, tables: dict[str, rows.Arrays], events: Sequence[Event], acked: rows.Arrays | None
    ) -> None:
        """Store rows, events, and which envelopes they came with, in one transaction."""
        fresh_dirty = rollup.mark_dirty(rows.touched_buckets(tables), self._dirty)
        run = self._connection.execute
        run("BEGIN")
        for name, arrays in tables.items():
            self._insert(name, arrays)
        if "steps" in tables and (long := rows.long_steps(tables["steps"])):
            self._insert("long_steps", long)
        if acked:
            self._insert("acked", acked)
        if events:
            self._insert("events", event_columns(events))
        if fresh_dirty:
            levels, sources, times = zip(*fresh_dirty, strict=True)
            self._insert(
                "dirty", {"level": np.array(levels), "source": objects(sources), "t_ns": np.array(times)}
            )
        run("COMMIT")
        for index, name, t_ns in fresh_dirty:
            self._dirty.setdefault((index, name), set()).add(t_ns)

    def bring_in(self, tables: dict[str, rows.Arrays], events: Sequence[Event]) -> None:
        """Store rows and events of a run that comes from elsewhere."""
        with self.lock:
            self._commit(tables, events, None)

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

    def _insert(self, table: str, arrays: Mapping[str, NDArray[Any]]) -> None:
        batch = dict(arrays)  # DuckDB finds the variable by its name
        names = ", ".join(f'"{name}"' for name in batch)
        values = ", ".join(_value(name, array) for name, array in batch.items())
        self._connection.execute(f'INSERT INTO "{table}" ({names}) SELECT {values} FROM batch')

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
        stored = acked_columns({stream: seen.intervals() for stream, seen in self._streams.items()})
        count = len(stored["low"])
        self._connection.execute("BEGIN")
        self._connection.execute("DELETE FROM acked")
        self._insert(
            "acked",
            {
                **stored,
                "made_ns": np.full(count, self.newest_ns),
                "received_ns": np.full(count, self.received_ns),
                "first_ns": np.full(count, self.first_ns),
            },
        )
        self._connection.execute("COMMIT")
        self._acked_rows = count

    def write(self, statements: Sequence[tuple[str, list[Any]]]) -> None:
        """Run statements in one transaction."""
        with self.lock:
            self._connection.execute("BEGIN")
            for sql, values in statements:
                self._connection.execute(sql, values)
            self._connection.execute("COMMIT")
            self.used_s = time.monotonic()
            self.changed = True

    def save_alerts(self, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""
        statements: list[tuple[str, list[Any]]] = []
        for alert in alerts:
            statements.append(("DELETE FROM alerts WHERE id = ?", [alert.id]))
            statements.append(
                ("INSERT INTO alerts VALUES (?, ?, ?, ?, ?, ?, ?)", list(msgspec.structs.astuple(alert)))
            )
        self.write(statements)

    def label(self, said: Labels) -> None:
        """Replace what people have said of the run."""
        with self.lock:
            self.write(labels.statements(said))
            self._labels = said
            self._card = self._draw_card()

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
