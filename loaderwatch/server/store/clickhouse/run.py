"""A run in ClickHouse for reading or writing: its commits, and what makes each of them count once.

A commit is one block per table, under one number of our claim (``claims.py``). Its last block, in ``acked``,
makes the number count. After a failed commit, the run is claimed and read again, so that the commit's blocks
stay invisible. If only the answer to the last block was lost, reading the run again shows the commit. Each
commit names its predecessor. Those on the chain that ends at the highest one count. A late commit under an
older claim is not on that chain.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import TABLES
from loaderwatch.server.store.clickhouse.claims import Claim, Fenced, newest, replaced_from
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.schema import STORED, SUMMED
from loaderwatch.server.store.clickhouse.snapshot import ClickHouseSnapshot, Gaps, sizes, text
from loaderwatch.server.store.deadline import Stopped, may_begin
from loaderwatch.server.store.protocol import Rest, RunExists, StoredRun, StoreError, UnknownRun
from loaderwatch.server.store.rows import Arrays
from loaderwatch.server.store.sql import rollup
from loaderwatch.server.store.sql.open_run import (
    Event,
    Insert,
    OpenRun,
    acked_columns,
    dirty_columns,
    objects,
)
from loaderwatch.server.store.sql.transfer import Arriving

_log: Final = logging.getLogger(__name__)


class TableArrival(Arriving):
    """An ``Arrival`` of a ClickHouse store. ``arrived`` gets the run's id and card once it counts, or may."""

    def __init__(
        self, database: Database, run: ClickHouseRun, arrived: Callable[[str, StoredRun | None], None]
    ) -> None:
        super().__init__(run)
        if run.newest_ns:
            raise RunExists(run.run_id)
        self._database = database
        self._open = run
        self._arrived = arrived

    def give_up(self) -> None:
        """Remove what was stored, unless it may be complete and count."""
        if self._open.may_count:
            self._arrived(self._open.run_id, None)
            return
        try:
            self._open.remove_arrived()
        except StoreError as error:
            _log.warning("what came of run %s stays where nobody sees it: %s", self._open.run_id, error)

    def _bring_in(self, tables: dict[str, Arrays], events: list[Event], stacks: list[ProfileStack]) -> None:
        self._open.bring_in(tables, events, stacks)

    def _conclude(self, rest: Rest) -> None:
        try:
            self._open.conclude(rest)
        except Fenced:
            raise RunExists(self._open.run_id) from None
        card = None
        try:
            while self._open.roll():
                pass
            self._open.bytes = sizes(self._database).get(self._open.run_id, 0)
            card = self._open.keep_card()
        # The run is stored: charts read its rows, and its list entry is created again.
        except StoreError as error:
            _log.warning("run %s is there, and not summed up: %s", self._open.run_id, error)
        self._arrived(self._open.run_id, card)


class ClickHouseRun(OpenRun):
    """An open run. ``append`` and ``label`` exclude each other; readers use snapshots and never wait.

    After an error in ``append`` or ``roll``, drop the object, and claim and read the run again.
    """

    def __init__(
        self, database: Database, run_id: str, *, create: bool = False, claim: Claim | None = None
    ) -> None:
        """Read the run's state.

        Args:
            database: the database of the run.
            run_id: the run's id, already checked.
            create: whether an unknown run may begin.
            claim: our claim of the run. Writing needs one.

        Raises:
            UnknownRun: there is no such run, and ``create`` is false.
            StoreError
        """
        super().__init__(run_id)
        self._database = database
        self._once = uuid.uuid4().hex  # a run that is stored again after its deletion repeats its numbers
        self.read_s = time.monotonic()
        self.rolled_s = 0.0  # when its rollups were last updated
        self.bytes = 0
        self._blocks = 0  # blocks of an import
        self._rolls = 0
        self.may_count = False  # whether an import may count
        self.claim = claim
        self._commits = self._whole_commits()
        if not self._commits.head and not create:
            raise UnknownRun(run_id)
        self._load(self.snapshot())

    def _whole_commits(self) -> Gaps:
        acked = f"{self._database.name}.acked"
        ready = newest(self._database, self.run_id, ready=True) if self.claim is None else self.claim.number
        previous_commits = dict(
            self._database.rows(
                f"SELECT commit, max(after) AS after FROM {acked} "
                f"WHERE run = {text(self.run_id)} GROUP BY commit"
            )
        )
        # Backwards from the highest commit: late commits of an older claim are on no later commit's chain.
        head = commit = int(max(previous_commits, default=0))
        void: list[tuple[int, int]] = []
        while commit:
            previous = int(previous_commits.get(commit, 0))
            if previous < commit - 1:
                void.append((previous + 1, commit - 1))
            commit = previous
        return Gaps(head, void[::-1], replaced_from(ready))

    # -- writing

    @contextmanager
    def _commit(self) -> Iterator[Insert]:
        claim = self._claimed()
        claim.commits = commit = claim.commits + 1
        yield self._inserter(commit)
        claim.check()
        self._count_as_commit(commit)
        self.used_s = time.monotonic()

    @contextmanager
    def _part(self) -> Iterator[Insert]:
        """Give a function that inserts rows into the commit that ``conclude`` makes count."""
        self._blocks += 1
        yield self._inserter(self._arriving(), self._blocks)

    def _inserter(self, commit: int, block: int = 0) -> Insert:
        """Return a function that inserts a commit's blocks; a block of ``acked`` makes the commit count."""

        def insert(table: str, columns: Columns) -> None:
            if table == "dirty":
                self._mark(commit, columns, clean=False, block=block)
                return
            same = {"after": self._commits.head} if table == "acked" else {}
            self._insert(commit, table, columns, same, block)

        return insert

    def _count_as_commit(self, commit: int) -> None:
        previous = self._commits.head
        void = [(previous + 1, commit - 1)] if commit > previous + 1 else []
        self._commits = Gaps(commit, (*self._commits.void, *void), self._commits.replaced_from)

    def _arriving(self) -> int:
        """Return the number of an import's only commit."""
        return self._claimed().number + 1

    def conclude(self, rest: Rest) -> None:
        """Make an import count once it is complete. After an error, ``may_count`` says if it may still count.

        Raises:
            Fenced: another server wrote to the run meanwhile.
            StoreError
        """
        with self.lock:
            claim = self._claimed()
            claim.commits = commit = self._arriving()
            self.save_alerts(rest.alerts)  # invisible until the commit counts
            self.label(rest.labels)
            acked = acked_columns(rest.sequences, rest.newest_ns, rest.received_ns, rest.first_ns)
            claim.see()  # even if this server is alone, it may have claimed the run for a sender meanwhile
            self.may_count = True
            self._inserter(commit)("acked", acked)
            claim.see()
            self._count_as_commit(commit)
            self.newest_ns, self.first_ns, self.received_ns = rest.newest_ns, rest.first_ns, rest.received_ns
            self._card = self._draw_card()

    def remove_arrived(self) -> None:
        """Delete what was stored of an import that does not count."""
        for table in (*TABLES, "long_steps", "events", "profile_stacks"):
            self._database.command(
                f"ALTER TABLE {self._database.name}.{table} DELETE IN PARTITION {text(self.run_id)}"
                f" WHERE run = {text(self.run_id)} AND commit = {self._arriving()}"
            )

    def _insert(
        self, commit: int, table: str, columns: Columns, same: Mapping[str, int] | None = None, block: int = 0
    ) -> None:
        """Insert a block of a commit. ``same`` are columns with one value in all rows."""
        count = len(next(iter(columns.values())))
        rows: dict[str, NDArray[Any]] = {"run": objects([self.run_id] * count)}
        rows |= {name: np.full(count, value) for name, value in {"commit": commit, **(same or {})}.items()}
        rows |= columns
        types = STORED[table].columns | {"run": "String"}
        self._database.insert(table, rows, types, f"{self.run_id}:{commit}:{block}:{self._once}")

    def _mark(self, commit: int, buckets: Columns, *, clean: bool, block: int) -> None:
        """Mark buckets: this commit added rows to them, or (``clean``, which wins) their sums include it."""
        self._insert(2 * commit + clean, "dirty", buckets, {"clean": SUMMED if clean else 0}, block)

    def roll(self) -> int:
        """Update rollups until this thread's deadline lets no more sums begin; return the number of buckets.

        New sums replace older ones. A bucket is marked as summed last, so a failure only costs time.

        Raises:
            Stopped: a sum exceeded this thread's deadline. The next one will be smaller.
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
            for rows in kept.selects:
                columns = f"{text(self.run_id)}, {self._commits.head}, {kept.columns}"
                snapshot.insert(into, f"SELECT {columns} FROM ({rows})")

    def _mark_clean(self, summed: Sequence[rollup.Closed]) -> None:
        if not summed:
            return
        self._rolls += 1  # else a second one after the same commit would look like the first, sent again
        buckets = [(closed.index, closed.source, t_ns) for closed in summed for t_ns in closed.begins]
        self._mark(self._commits.head, dirty_columns(buckets), clean=True, block=self._rolls)

    def _replace(self, table: str, columns: Columns) -> None:
        with self.lock:
            claim = self._claimed()
            claim.replaced += 1
            self._insert(claim.replaced, table, columns)
            claim.check()
            self.used_s = time.monotonic()

    def _claimed(self) -> Claim:
        assert self.claim is not None, "a run is claimed before it is written to"
        return self.claim

    def keep_card(self) -> StoredRun:
        """Store the run's list entry, and return it."""
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
