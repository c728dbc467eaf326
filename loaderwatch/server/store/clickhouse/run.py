"""A run in ClickHouse that is written to or read: commits, and what makes each of them count once.

A commit is a block for each table, under one number of our claim (``claims.py``), and last a block of ``acked`` that makes the
number count. When one fails, the run is claimed and read again, so that what came of it stays unseen; when the answer to the last
block was lost and the block came in, reading the run again tells. Each commit names the one before it, and those count that lead to
the highest: one that comes late, under an older claim, is not among them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import wall_ns
from loaderwatch.core.records import TABLES, UNKNOWN
from loaderwatch.core.wire import Envelope, decode_json
from loaderwatch.server.store import rows
from loaderwatch.server.store.clickhouse.claims import Claim, newest, replaced_from
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import STORED, SUMMED
from loaderwatch.server.store.clickhouse.snapshot import ClickHouseSnapshot, Gaps, text
from loaderwatch.server.store.deadline import Stopped, may_begin
from loaderwatch.server.store.facts import unpack_event
from loaderwatch.server.store.protocol import Rest, StoredAlert, StoredRun, UnknownRun
from loaderwatch.server.store.schema import stored_columns
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import rollup, row_queries
from loaderwatch.server.store.sql.open_run import (
    LAST_EVENTS,
    Event,
    OpenRun,
    acked_columns,
    event_columns,
    fresh_columns,
    objects,
)


class ClickHouseRun(OpenRun):
    """An open run. ``append`` and ``label`` exclude each other; readers see snapshots and never wait.

    After an error in ``append`` or ``roll`` drop the object, and claim and read the run again.
    """

    def __init__(
        self, database: Database, run_id: str, *, create: bool = False, claim: Claim | None = None
    ) -> None:
        """Read what is known of the run.

        Args:
            database: where it is.
            run_id: its id, checked.
            create: whether a run that is not there begins.
            claim: our claim of the run, without which nothing is written.

        Raises:
            UnknownRun: there is none, and ``create`` is false.
            StoreError
        """
        super().__init__(run_id)
        self._database = database
        self._once = uuid.uuid4().hex  # a run that was deleted and comes again uses its numbers again
        self.used_s = self.read_s = time.monotonic()
        self.rolled_s = 0.0  # when its rollups were last updated
        self.readers = 0
        self.changed = False
        self.bytes = 0
        self._blocks = 0  # of a run that comes from elsewhere
        self._rolls = 0
        self.may_count = False  # such a run
        self.claim = claim
        self._load(create)

    def _load(self, create: bool) -> None:
        self._commits = self._whole_commits()
        if not self._commits.head and not create:
            raise UnknownRun(self.run_id)
        snapshot = self.snapshot()
        run = snapshot.execute
        for (body,) in run("SELECT body FROM events WHERE facts ORDER BY ordinal").fetchall():
            self.facts.take(unpack_event(body))
        last, lost = run("SELECT max(ordinal), sum(lost) FROM events").fetchall()[0]
        self._ordinal = (last or 0) + 1
        self.lost_records = int(lost or 0)
        for stream, intervals in row_queries.sequences(snapshot).items():
            self._streams.setdefault(stream, SequenceSet()).extend(intervals)
        newest, received, first = run(
            "SELECT max(made_ns), max(received_ns), min(first_ns) FROM acked"
        ).fetchall()[0]
        self.newest_ns, self.first_ns = int(newest or 0), int(first or 0)
        self.received_ns = int(received or self.received_ns)
        self._dirty = rollup.load_dirty(snapshot)
        newest_events = f"SELECT body FROM events ORDER BY ordinal DESC LIMIT {LAST_EVENTS}"
        self._open_waits = self._last_waits(lambda: (body for (body,) in run(newest_events).fetchall()))
        said = run("SELECT said FROM labels").fetchone()
        self._labels = Labels() if said is None else decode_json(said[0], Labels)
        self._card = self._draw_card()

    def _whole_commits(self) -> Gaps:
        acked = f"{self._database.name}.acked"
        ready = newest(self._database, self.run_id, ready=True) if self.claim is None else self.claim.number
        before = dict(
            self._database.rows(
                f"SELECT commit, max(after) AS after FROM {acked} WHERE run = {text(self.run_id)} GROUP BY commit"
            )
        )
        # Backwards from the highest: what came late, of an older claim, is on nobody's way.
        head = commit = int(max(before, default=0))
        void: list[tuple[int, int]] = []
        while commit:
            earlier = int(before.get(commit, 0))
            if earlier < commit - 1:
                void.append((earlier + 1, commit - 1))
            commit = earlier
        return Gaps(head, void[::-1], replaced_from(ready))

    # -- writing

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store the envelopes that are new, in one commit; return them."""
        with self.lock:
            fresh = self._fresh(envelopes)
            if not fresh:
                return []
            now = wall_ns()
            events = [event for e in fresh if (event := self._event(e))]
            tables = rows.gather(fresh, self.facts)
            firsts = [rows.first_time(e) for e in fresh]
            claim = self._claimed()
            claim.commits += 1
            fresh_dirty = self._insert_all(claim.commits, tables, events)
            self._commit(claim.commits, fresh_columns(fresh, firsts), now)
            claim.check()
            self._count_as_commit(claim.commits)
            for index, name, t_ns in fresh_dirty:
                self._dirty.setdefault((index, name), set()).add(t_ns)
            self.newest_ns = max(self.newest_ns, *(e.made_ns for e in fresh))
            self.first_ns = min(self.first_ns or firsts[0], *firsts)
            self.received_ns = now
            self.used_s = time.monotonic()
            self.changed = True
            for each in fresh:
                self._note_open_waits(each)
            if any(facts for _, _, facts, _, _ in events):
                self._card = self._draw_card()
            return fresh

    def _insert_all(
        self, commit: int, tables: dict[str, rows.Arrays], events: Sequence[Event], block: int = 0
    ) -> list[tuple[int, str, int]]:
        """Insert rows and events; return the buckets that became dirty."""
        fresh_dirty = rollup.mark_dirty(rows.touched_buckets(tables), self._dirty)
        if fresh_dirty:  # first: a bucket that is taken for dirty costs time only
            levels, sources, times = zip(*fresh_dirty, strict=True)
            self._mark(commit, levels, sources, times, clean=False, block=block)
        for name, arrays in tables.items():
            stored = {column: arrays[column] for column in stored_columns(name)}
            self._insert(commit, name, stored, block=block)
        if "steps" in tables and (long := rows.long_steps(tables["steps"])):
            self._insert(commit, "long_steps", long, block=block)
        if events:
            self._insert(commit, "events", event_columns(events), block=block)
        return fresh_dirty

    def _commit(self, commit: int, acked: Mapping[str, NDArray[Any]], received_ns: int) -> None:
        """Insert the block that makes a commit count."""
        self._insert(commit, "acked", acked, {"received_ns": received_ns, "after": self._commits.head})

    def _count_as_commit(self, commit: int) -> None:
        before = self._commits.head
        void = [(before + 1, commit - 1)] if commit > before + 1 else []
        self._commits = Gaps(commit, (*self._commits.void, *void), self._commits.replaced_from)

    def bring_in(self, tables: dict[str, rows.Arrays], events: Sequence[Event]) -> None:
        """Insert rows and events of a run that comes from elsewhere, in the commit that ``conclude`` makes count."""
        with self.lock:
            self._blocks += 1
            for index, name, t_ns in self._insert_all(self._arriving(), tables, events, self._blocks):
                self._dirty.setdefault((index, name), set()).add(t_ns)

    def _arriving(self) -> int:
        """Return the number of the commit that such a run is."""
        return self._claimed().number + 1

    def conclude(self, rest: Rest) -> None:
        """Make such a run count, when all of it is there. When this fails, ``may_count`` says whether it may count all the same.

        Raises:
            Fenced: somebody wrote to the run meanwhile.
            StoreError
        """
        with self.lock:
            claim = self._claimed()
            claim.commits = commit = self._arriving()
            self.save_alerts(rest.alerts)  # nothing is seen of them before the commit counts
            self.label(rest.labels)
            acked = acked_columns(rest.sequences)
            count = len(acked["low"])
            acked |= {"made_ns": np.full(count, rest.newest_ns), "first_ns": np.full(count, rest.first_ns)}
            claim.see()  # whoever is alone with the database may have claimed the run for a sender
            self.may_count = True
            self._commit(commit, acked, rest.received_ns)
            claim.see()
            self._count_as_commit(commit)
            self.newest_ns, self.first_ns, self.received_ns = rest.newest_ns, rest.first_ns, rest.received_ns
            self._card = self._draw_card()

    def remove_arrived(self) -> None:
        """Delete what came of such a run that does not count."""
        for table in (*TABLES, "long_steps", "events"):
            self._database.command(
                f"ALTER TABLE {self._database.name}.{table} DELETE IN PARTITION {text(self.run_id)}"
                f" WHERE run = {text(self.run_id)} AND commit = {self._arriving()}"
            )

    def save_alerts(self, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""
        if not alerts:
            return
        columns = {name: [getattr(alert, name) for alert in alerts] for name in StoredAlert.__struct_fields__}
        types = STORED["alerts"].columns
        self.replace(
            "alerts",
            {
                name: objects(values) if types[name] == "String" else _integers(values)
                for name, values in columns.items()
            },
        )

    def _insert(
        self,
        commit: int,
        table: str,
        columns: Mapping[str, NDArray[Any]],
        same: Mapping[str, int] | None = None,
        block: int = 0,
    ) -> None:
        """Insert a block, one of several of its commit; ``same`` are columns with one value in all of its rows."""
        count = len(next(iter(columns.values())))
        whole: dict[str, NDArray[Any]] = {"run": objects([self.run_id] * count)}
        whole |= {name: np.full(count, value) for name, value in {"commit": commit, **(same or {})}.items()}
        whole |= columns
        types = STORED[table].columns | {"run": "String"}
        self._database.insert(table, whole, types, f"{self.run_id}:{commit}:{block}:{self._once}")

    def _mark(
        self,
        commit: int,
        levels: Sequence[int],
        sources: Sequence[str],
        times: Sequence[int],
        *,
        clean: bool,
        block: int = 0,
    ) -> None:
        """Insert marks of buckets: rows were added with this commit, or those up to it are summed. Of both, the latter counts."""
        marks = {"level": np.array(levels), "source": objects(sources), "t_ns": np.array(times)}
        self._insert(2 * commit + clean, "dirty", marks, {"clean": SUMMED if clean else 0}, block)

    def roll(self) -> int:
        """Bring rollups up to date, as far as the deadline of this thread lets sums begin; return how many buckets were summed.

        Sums replace those of the same bucket. A bucket counts as summed last, so that a failure costs time only.

        Raises:
            Stopped: a sum took longer than the deadline of this thread; a later one will be of less.
        """
        with self.lock:
            summed: list[rollup.Closed] = []
            try:
                for closed in rollup.ready(self._dirty, self.newest_ns, self._pace):
                    self._pace.begin(closed)
                    self._sum(closed)
                    self._pace.end()
                    summed.append(closed)
                    self._dirty[closed.index, closed.source].difference_update(closed.begins)
                    if not may_begin():
                        break
                self._pace.over()
            except Stopped:
                self._pace.interrupted()
                raise
            finally:
                self._mark_clean(summed)
            return sum(len(closed.begins) for closed in summed)

    def _sum(self, closed: rollup.Closed) -> None:
        """Insert the sums of a stretch."""
        snapshot = self.snapshot()
        span = (closed.start_ns, closed.end_ns)
        for kept in rollup.kept_of(closed.index, closed.source, *span, self.facts.most_ranks):
            into = f"INSERT INTO {self._database.name}.{kept.table} (run, commit, {kept.columns})"
            for found in kept.selects:
                picked = f"{text(self.run_id)}, {self._commits.head}, {kept.columns}"
                snapshot.insert(into, f"SELECT {picked} FROM ({found})")

    def _mark_clean(self, summed: Sequence[rollup.Closed]) -> None:
        if not summed:
            return
        self._rolls += (
            1  # without it a second one after the same commit would be taken for the first, sent again
        )
        times = [t for closed in summed for t in closed.begins]
        levels = [closed.index for closed in summed for _ in closed.begins]
        sources = [closed.source for closed in summed for _ in closed.begins]
        self._mark(self._commits.head, levels, sources, times, clean=True, block=self._rolls)

    def replace(self, table: str, columns: Mapping[str, NDArray[Any]]) -> None:
        """Insert rows that take the place of those with their keys."""
        with self.lock:
            claim = self._claimed()
            claim.replaced += 1
            self._insert(claim.replaced, table, columns)
            claim.check()
            self.used_s = time.monotonic()

    def _claimed(self) -> Claim:
        assert self.claim is not None, "a run is claimed before it is written to"
        return self.claim

    def label(self, said: Labels) -> None:
        """Replace what people have said of the run."""
        with self.lock:
            self.replace("labels", {"said": objects([msgspec.json.encode(said)])})
            self._labels = said
            self._card = self._draw_card()
            self.changed = True

    def keep_card(self) -> StoredRun:
        """Store what lists of runs show, and return it."""
        with self.lock:
            card, claim = self.stored_run(), self._claimed()
            claim.replaced += 1
            self._insert(claim.replaced, "cards", {"card": objects([msgspec.json.encode(card)])})
            self.changed = False
            return card

    # -- reading

    def snapshot(self) -> ClickHouseSnapshot:
        """Return the run as it is now."""
        self.used_s = time.monotonic()
        return ClickHouseSnapshot(self._database, self.run_id, self._commits)

    def _bytes(self) -> int:
        return self.bytes


def _integers(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)
