"""The store on ClickHouse, for teams that run one: all runs in the tables of one database."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import RUN_ID_PATTERN, Envelope
from loaderwatch.server.store.clickhouse.address import Address
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.lease import Lease
from loaderwatch.server.store.clickhouse.run import ClickHouseRun
from loaderwatch.server.store.clickhouse.schema import STORED, prepare
from loaderwatch.server.store.clickhouse.snapshot import text
from loaderwatch.server.store.open_run import OpenRun, objects
from loaderwatch.server.store.protocol import StoredAlert, StoredRun, StoreError, UnknownRun
from loaderwatch.server.store.snapshot import Snapshot
from loaderwatch.server.store.sql_store import SqlStore

_log: Final = logging.getLogger(__name__)

IDLE_S: Final = 60.0
"""A run that nobody reads or writes for so long is forgotten here, and read again when it is wanted."""
MOST_OPEN: Final = 64
CARDS_EVERY_S: Final = 10.0


class ClickHouseStore(SqlStore):
    """Keeps runs in a database of ClickHouse. ``store.protocol.Store`` describes the methods.

    One server writes to a database at a time (``lease.py``).
    """

    commit_interval_s = 1.0
    """A part of a table, which each insert makes, costs ClickHouse about as much with one row as with a thousand."""

    def __init__(self, address: Address, owner: str | None = None) -> None:
        """Connect, and make what is missing of the database.

        Args:
            address: where it is.
            owner: the server's name, by which it may take over from itself after it was killed.

        Raises:
            ConfigError: the address, user, server or schema cannot be used; it says what to change.
            StoreError: the server does not answer, or refuses.
        """
        self._database = Database(address)
        prepare(self._database)
        self._lease = Lease(self._database, owner or uuid.uuid4().hex)
        self._lease.take()
        self._lock = threading.Lock()  # guards what follows, and is never held while ClickHouse is asked
        self._loading = threading.Lock()
        self._runs: dict[str, ClickHouseRun] = {}
        self._used: dict[str, int] = {}  # of runs whose last commit failed: the number that it had
        self._cards = self._read_cards()
        self._next_cards_s = 0.0

    def _read_cards(self) -> dict[str, StoredRun | None]:
        """Return what lists show of each run; None where the newest commit is newer than what was kept."""
        name = self._database.name
        kept = {
            run.decode(): msgspec.json.decode(card, type=StoredRun)
            for run, card in self._database.rows(f"SELECT run::String AS run, card FROM {name}.cards FINAL")
        }
        newest = self._database.rows(
            f"SELECT run::String AS run, max(received_ns) AS received FROM {name}.acked GROUP BY run"
        )
        found: dict[str, StoredRun | None] = {}
        for run, received in newest:
            card = kept.get(run.decode())
            found[run.decode()] = card if card is not None and card.received_ns >= received else None
        return found

    @contextmanager
    def _open(self, run_id: str, create: bool = False) -> Iterator[ClickHouseRun]:
        run = self._taken(run_id)
        if run is None:
            with self._loading:  # one at a time, and no other run waits for it
                run = self._taken(run_id) or self._load(run_id, create)
        try:
            yield run
        finally:
            with self._lock:
                run.readers -= 1

    def _taken(self, run_id: str) -> ClickHouseRun | None:
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None:
                run.readers += 1
            return run

    def _load(self, run_id: str, create: bool) -> ClickHouseRun:
        if not RUN_ID_PATTERN.match(run_id) or (not create and run_id not in self._cards):
            raise UnknownRun(run_id)
        run = ClickHouseRun(self._database, run_id, create=create, used=self._used.get(run_id, 0))
        with self._lock:
            run.readers += 1
            self._runs[run_id] = run
        return run

    @contextmanager
    def _reading(self, run_id: str) -> Iterator[tuple[Snapshot, OpenRun]]:
        with self._open(run_id) as run:
            yield run.snapshot(), run

    def check(self) -> None:
        """See that ClickHouse answers."""
        self._database.check()

    # -- writing

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store envelopes of any runs, which ClickHouse has on return. Return those that were not stored before."""
        if self._lease.refused is not None:
            raise self._lease.refused
        by_run: dict[str, list[Envelope]] = {}
        for envelope in envelopes:
            by_run.setdefault(envelope.run_id, []).append(envelope)
        stored: list[Envelope] = []
        for run_id, group in by_run.items():
            with self._open(run_id, create=True) as run:
                try:
                    stored.extend(run.append(group))
                except BaseException:
                    self._forget(run)  # its memory counts these envelopes as stored
                    raise
                self._cards.setdefault(run_id, None)
        return stored

    def _forget(self, run: ClickHouseRun) -> None:
        with self._lock:
            self._used[run.run_id] = run.used
            if self._runs.get(run.run_id) is run:
                del self._runs[run.run_id]
            if run.run_id in self._cards:  # what lists show is told without asking ClickHouse
                self._cards[run.run_id] = run.stored_run()

    def save_alerts(self, run_id: str, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""
        if not alerts:
            return
        columns = {name: [getattr(alert, name) for alert in alerts] for name in StoredAlert.__struct_fields__}
        types = STORED["alerts"].columns
        with self._open(run_id) as run:
            run.replace(
                "alerts",
                {
                    name: objects(values) if types[name] == "String" else _integers(values)
                    for name, values in columns.items()
                },
            )

    def label(self, run_id: str, labels: Labels) -> None:
        """Replace what people have said of a run."""
        with self._open(run_id) as run:
            run.label(labels)

    def tidy(self) -> None:
        """Do the housekeeping, about once a second: sum up closed buckets, keep cards, forget idle runs."""
        now = time.monotonic()
        if now < self._next_cards_s:
            return
        self._next_cards_s = now + CARDS_EVERY_S
        self._lease.renew()
        if self._lease.refused is not None:
            raise self._lease.refused
        with self._lock:
            runs = list(self._runs.values())
        if any(run.changed for run in runs):
            sizes = self._sizes()
            for run in runs:
                run.bytes = sizes.get(run.run_id, 0)
        for run in runs:
            if run.changed:
                try:
                    done = run.roll()
                except BaseException:
                    self._forget(run)
                    raise
                self._keep_card(run)
                run.changed = done > 0  # what closes later is summed later
        self._forget_idle(now)

    def _sizes(self) -> dict[str, int]:
        """Return how many bytes each run takes on disk."""
        rows = self._database.rows(
            "SELECT partition, sum(bytes_on_disk) AS bytes FROM system.parts "
            f"WHERE active AND database = {text(self._database.name)} GROUP BY partition"
        )
        return {partition.decode(): int(size) for partition, size in rows}

    def _keep_card(self, run: ClickHouseRun) -> None:
        card = run.keep_card()
        with self._lock:
            if run.run_id in self._cards:
                self._cards[run.run_id] = card

    def _forget_idle(self, now_s: float) -> None:
        with self._lock:
            idle = sorted(
                (run for run in self._runs.values() if not run.readers and not run.changed),
                key=lambda run: run.used_s,
            )
            spare = max(0, len(self._runs) - MOST_OPEN)
            for index, run in enumerate(idle):
                if index < spare or now_s - run.used_s > IDLE_S:
                    del self._runs[run.run_id]

    def delete(self, run_id: str) -> None:
        """Remove a run."""
        with self._lock:
            if run_id not in self._cards:
                raise UnknownRun(run_id)
        name = self._database.name
        held = {
            table.decode()
            for (table,) in self._database.rows(
                f"SELECT DISTINCT table FROM system.parts WHERE active AND database = {text(name)} AND partition = {text(run_id)}"
            )
        }
        # What says that the run is there goes last, so that a deletion that was cut short can be done again.
        for table in sorted(held & STORED.keys(), key=lambda table: (table == "cards", table == "acked")):
            self._database.command(f"ALTER TABLE {name}.{table} DROP PARTITION {text(run_id)}")
        with self._lock:
            self._runs.pop(run_id, None)
            self._cards.pop(run_id, None)
            self._used.pop(run_id, None)

    def close(self) -> None:
        """Keep the cards, and close the connections."""
        try:
            with self._lock:
                changed = [run for run in self._runs.values() if run.changed]
            for run in changed:
                self._keep_card(run)
            self._lease.leave()
        except StoreError as error:
            _log.warning("what lists show of runs was not kept, and is made anew: %s", error)
        self._database.close()

    # -- reading

    def stored_seq(self, run_id: str, stream: str) -> int:
        """Return the highest sequence number stored of a stream; 0 if there is none, or no such run."""
        try:
            with self._open(run_id) as run:
                return run.stored_seq(stream)
        except UnknownRun:
            return 0

    def runs(self) -> list[StoredRun]:
        """Return every run, newest first."""
        with self._lock:
            run_ids = list(self._cards)
        found = []
        for run_id in run_ids:
            try:
                found.append(self.run(run_id))
            except UnknownRun:
                continue  # deleted meanwhile
        return sorted(found, key=lambda run: run.started_ns, reverse=True)

    def run(self, run_id: str) -> StoredRun:
        """Return what is known of one run."""
        with self._lock:
            open_run, card = self._runs.get(run_id), self._cards.get(run_id)
        if open_run is not None and run_id in self._cards:
            return open_run.stored_run()
        if card is not None:
            return card
        with self._open(run_id) as run:
            return run.stored_run()


def _integers(values: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)
