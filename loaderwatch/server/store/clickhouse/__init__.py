"""The store on ClickHouse, for teams that run one. All runs share the tables of one database."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from loaderwatch.core.wire import RUN_ID_PATTERN
from loaderwatch.server.store.clickhouse.address import Address
from loaderwatch.server.store.clickhouse.claims import Claim, Fenced
from loaderwatch.server.store.clickhouse.database import Database
from loaderwatch.server.store.clickhouse.list_entries import Cards
from loaderwatch.server.store.clickhouse.run import ClickHouseRun, TableArrival
from loaderwatch.server.store.clickhouse.schema import prepare
from loaderwatch.server.store.clickhouse.server_heartbeats import Members, Server, View
from loaderwatch.server.store.clickhouse.snapshot import drop, sizes
from loaderwatch.server.store.deadline import Deadline, Stopped
from loaderwatch.server.store.protocol import Behind, RunExists, StoredRun, StoreError, UnknownRun
from loaderwatch.server.store.sql.open_run import OpenRun
from loaderwatch.server.store.sql.rollup import LONGEST_S, PASS_S, REST
from loaderwatch.server.store.sql.snapshot import Snapshot
from loaderwatch.server.store.sql.store import SqlStore

_log: Final = logging.getLogger(__name__)

IDLE_S: Final = 60.0
"""After so many seconds without use, a run is dropped from memory. It is read again when needed."""
MOST_OPEN: Final = 64
LOADED_AT_ONCE: Final = 8
CARDS_EVERY_S: Final = 10.0
OTHERS_S: Final = 3.0
"""After so many seconds, a run that another server writes to is read again."""


class ClickHouseStore(SqlStore):
    """A store that keeps runs in a ClickHouse database. ``store.protocol.Store`` describes the methods.

    Several servers may share the database. Each claims the runs that it owns before it writes to them.
    """

    commit_interval_s = 1.0
    """Each insert makes a part of a table. A part costs about as much with one row as with a thousand."""
    shared = True

    def __init__(self, address: Address, me: Server | None = None) -> None:
        """Connect, and create missing tables.

        Args:
            address: address of the database.
            me: this server among those of the database. None: others do not see it, and it owns every run.

        Raises:
            ConfigError: the address, user, server or schema cannot be used. The message says what to change.
            StoreError: the server does not answer, or refuses.
        """
        self._database = Database(address)
        prepare(self._database)
        self.members = None if me is None else Members(self._database, me)
        if self.members is not None:
            self.members.join()
        self._lock = threading.Lock()  # guards the fields below; never held during a query
        self._loading = [threading.Lock() for _ in range(LOADED_AT_ONCE)]
        self._beating = threading.Lock()
        self._runs: dict[str, ClickHouseRun] = {}
        self._lost: set[str] = set()  # runs that another server has claimed, until ``let_go``
        self.cards = Cards(self._database, self._lock, self.owns)
        self._next_cards_s = 0.0
        self._rests_until_s = 0.0  # monotonic: rollups rest until then
        self.cards.read()

    def owns(self, run_id: str) -> bool:
        """Whether this server writes the run, as far as it knows."""
        return self.members is None or self.members.view.owns(run_id)

    def is_alone(self) -> bool:
        """Whether no other server can have written anything since this server last looked."""
        return self.members is not None and self.members.alone

    @contextmanager
    def _open(self, run_id: str, *, create: bool = False, write: bool = False) -> Iterator[ClickHouseRun]:
        """Open a run. ``write`` claims it first.

        Raises:
            UnknownRun
            Fenced: another server writes to the run.
            StoreError
        """
        if write and run_id in self._lost:
            raise Fenced(run_id)
        run = self._taken(run_id, write)
        if run is None:
            with self._loading[hash(run_id) % LOADED_AT_ONCE]:  # each run is loaded once; few others wait
                run = self._taken(run_id, write) or self._load(run_id, create, write)
        try:
            yield run
        except Fenced:
            self._lose(run)
            raise
        finally:
            with self._lock:
                run.readers -= 1

    def _taken(self, run_id: str, write: bool) -> ClickHouseRun | None:
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return None
            is_old = time.monotonic() - run.read_s > OTHERS_S and not self.owns(run_id)
            if run.claim is None and (write or is_old):
                return None
            run.readers += 1
            return run

    def _load(self, run_id: str, create: bool, write: bool) -> ClickHouseRun:
        is_known = run_id in self.cards.known or not (self.members is None or self.is_alone())
        if not RUN_ID_PATTERN.match(run_id) or (not create and not is_known):
            raise UnknownRun(run_id)
        claim = None
        if write:
            self._see_that_it_is_ours(run_id)
            claim = Claim(self._database, run_id, self.is_alone)
        run = ClickHouseRun(self._database, run_id, create=create, claim=claim)
        with self._lock:
            run.readers += 1
            self._runs[run_id] = run
        return run

    def _see_that_it_is_ours(self, run_id: str) -> None:
        """Raise if this server may not claim a run."""
        if self.members is not None and not self.members.is_heard:
            self.beat()
        if not self.owns(run_id):
            raise Fenced(run_id)
        if self.members is not None and not self.members.view.may_claim:
            raise StoreError(f"this server may not take run {run_id} over yet; send it again")

    @contextmanager
    def _reading(self, run_id: str) -> Iterator[tuple[Snapshot, OpenRun]]:
        with self._open(run_id) as run:
            yield run.snapshot(), run

    def check(self) -> None:
        """Raise StoreError if ClickHouse does not answer."""
        self._database.check()

    # -- writing

    @contextmanager
    def _writing(self, run_id: str, *, create: bool = False) -> Iterator[OpenRun]:
        if create and not self.owns(run_id):
            raise Fenced(run_id)
        with self._open(run_id, create=create, write=True) as run:
            try:
                yield run
            except Behind:
                raise
            except BaseException:
                self._forget(run)  # the object may know more than is stored
                raise
            if create:
                self.cards.known.setdefault(run_id, None)

    def _forget(self, run: ClickHouseRun) -> None:
        with self._lock:
            if self._runs.get(run.run_id) is run:
                del self._runs[run.run_id]
            if run.run_id in self.cards.known:  # so that lists need no query
                self.cards.known[run.run_id] = run.stored_run()

    def _lose(self, run: ClickHouseRun) -> None:
        """Stop writing to a run that another server claimed, and drop the outdated state."""
        with self._lock:
            self._lost.add(run.run_id)
            if self._runs.get(run.run_id) is run:
                del self._runs[run.run_id]

    def arrive(self, run_id: str) -> TableArrival:
        """Begin to import a run."""
        if not RUN_ID_PATTERN.match(run_id):
            raise UnknownRun(run_id)
        with suppress(UnknownRun):
            self.run(run_id)
            raise RunExists(run_id)
        self._see_that_it_is_ours(run_id)
        claim = Claim(self._database, run_id, self.is_alone)
        run = ClickHouseRun(self._database, run_id, create=True, claim=claim)
        return TableArrival(self._database, run, self._arrived)

    def _arrived(self, run_id: str, card: StoredRun | None) -> None:
        with self._lock:
            self.cards.known[run_id] = card

    def tidy(self) -> None:
        """Do the housekeeping about once a second: sum closed buckets, store list entries, drop idle runs."""
        now = time.monotonic()
        if now < self._next_cards_s:
            return
        self._next_cards_s = now + CARDS_EVERY_S
        if self.members is not None and not self.is_alone():
            self.cards.read_others(self._claimed())
        with self._lock:
            runs = list(self._runs.values())
        if any(run.changed for run in runs):
            bytes_of = sizes(self._database)
            for run in runs:
                run.bytes = bytes_of.get(run.run_id, 0)
        longest = Deadline(LONGEST_S, "summing this run up takes too long", begin_within_s=PASS_S)
        for run in sorted((run for run in runs if run.changed), key=lambda run: run.rolled_s):
            has_more = self._roll(run, longest)
            self._keep_card(run)
            run.changed = has_more  # buckets that close later are summed later
        self._forget_idle(now)

    def _roll(self, run: ClickHouseRun, longest: Deadline) -> bool:
        """Update a run's rollups if the pass has time left; return whether there may be more to sum."""
        began_s = time.monotonic()
        if not longest.may_begin or began_s < self._rests_until_s:
            return True
        run.rolled_s = began_s
        try:
            with longest.holds():
                buckets_summed = run.roll()
        except Stopped as error:
            self._rests_until_s = time.monotonic() + REST * (time.monotonic() - began_s)
            _log.warning("run %s: %s; it is tried again with less at once", run.run_id, error)
            return True
        except BaseException:
            self._forget(run)
            raise
        return buckets_summed > 0

    def _keep_card(self, run: ClickHouseRun) -> None:
        card = run.keep_card()
        with self._lock:
            if run.run_id in self.cards.known:
                self.cards.known[run.run_id] = card

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
            if run_id not in self.cards.known:
                raise UnknownRun(run_id)
        drop(self._database, run_id)
        with self._lock:
            self._runs.pop(run_id, None)
            self.cards.known.pop(run_id, None)

    def close(self) -> None:
        """Store the list entries, and close the connections."""
        try:
            with self._lock:
                changed = [run for run in self._runs.values() if run.changed]
            for run in changed:
                self._keep_card(run)
            self.leave()
        except StoreError as error:
            _log.warning("what lists show of runs was not kept, and is made anew: %s", error)
        self._database.close()

    # -- runs that change servers

    def take_over(self, run_id: str) -> StoredRun:
        """Claim a run, so that no other server writes to it, and return what is known about it then.

        Raises:
            UnknownRun, Fenced, StoreError
        """
        with self._open(run_id, write=True) as run, self._lock:
            stored_run = self.cards.known[run_id] = run.stored_run()
            return stored_run

    def let_go(self, run_ids: Iterable[str]) -> None:
        """Drop runs that belong to another server now or have to be claimed again."""
        with self._lock:
            for run_id in run_ids:
                self._runs.pop(run_id, None)
                self._lost.discard(run_id)

    def others_came_or_went(self) -> None:
        """Drop runs that belong to another server now, and read the list entries of our runs."""
        with self._lock:
            moved = [run_id for run_id in self._runs if not self.owns(run_id)]
        self.let_go(moved)
        self.cards.read(self._claimed())

    def lost(self) -> frozenset[str]:
        """Return the runs that another server claimed while this server had them."""
        with self._lock:
            return frozenset(self._lost)

    def beat(self) -> View:
        """Send a heartbeat, and return the servers that are alive. This is called once a second."""
        assert self.members is not None
        with self._beating:
            view = self.members.beat()
            if view.returned:
                self._look_again()
            return view

    def leave(self) -> None:
        """Announce that this server stops."""
        if self.members is not None:
            with self._beating:
                self.members.leave()

    def _look_again(self) -> None:
        """Check what others wrote while this server's heartbeats were missing."""
        with self._lock:
            self._runs = {run_id: run for run_id, run in self._runs.items() if run.claim is not None}
            ours = list(self._runs.values())
        for run in ours:
            if run.claim is not None and not run.claim.is_newest():
                self._lose(run)
        self.cards.read(self._claimed())

    def _claimed(self) -> list[str]:
        with self._lock:
            return [run_id for run_id, run in self._runs.items() if run.claim is not None]

    # -- reading

    def stored_seq(self, run_id: str, stream: str) -> int:
        """Return the highest sequence number stored for a stream; 0 if there is none, or no such run."""
        try:
            with self._open(run_id) as run:
                return run.stored_seq(stream)
        except UnknownRun:
            return 0

    def runs(self) -> list[StoredRun]:
        """Return every run, newest first."""
        stored_runs = []
        for run_id in list(self.cards.known):
            if self.cards.known.get(run_id) is None and not self.owns(run_id):
                continue  # it has just begun at its owner
            try:
                stored_runs.append(self.run(run_id))
            except UnknownRun:
                continue  # deleted meanwhile
        return sorted(stored_runs, key=lambda run: run.started_ns, reverse=True)

    def run(self, run_id: str) -> StoredRun:
        """Return what is known about one run."""
        with self._lock:
            open_run, card = self._runs.get(run_id), self.cards.known.get(run_id)
        if open_run is not None and run_id in self.cards.known:
            return open_run.stored_run()
        if card is not None:
            return card
        with self._open(run_id) as run:
            return run.stored_run()
