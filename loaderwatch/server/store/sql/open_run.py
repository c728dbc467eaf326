"""What a store keeps in memory of an open run, whichever database holds its rows."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import wall_ns
from loaderwatch.core.columns import Columns
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import Envelope, decode_json
from loaderwatch.server.store import rows
from loaderwatch.server.store.facts import RunFacts, pack_event, unpack_event
from loaderwatch.server.store.protocol import Behind, StoredAlert, StoredRun
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import rollup, row_queries
from loaderwatch.server.store.sql.snapshot import Snapshot, columns_of

SPANS_EVERY_NS: Final = 900_000_000
"""Open spans are kept once a second for each stream, which is enough for a replay at 1 Hz."""

LAST_EVENTS: Final = 200
"""How many of the newest events are searched for a process's last span; a host sends about one a second."""

Event = tuple[int, int, bool, int, bytes]
"""A row of the table ``events``: ordinal, time, whether a fact changed, records lost, body."""

Insert: TypeAlias = Callable[[str, Columns], None]
"""Inserts rows into a table."""


class OpenRun(ABC):
    """Facts, sequence numbers and open waits of a run. They tell which parts of an envelope are new.

    Its methods store envelopes, alerts and labels in either database. A subclass says how rows are inserted
    so that all of them count or none. After an error in storing, the object may know more than the database.
    Drop the object then, and read the run again.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.lock = threading.RLock()  # held while envelopes are stored
        self.used_s = time.monotonic()
        self.readers = 0
        self.changed = False  # something was stored since housekeeping last had nothing to do
        self.facts = RunFacts()
        self.lost_records = 0
        self.newest_ns = 0
        self.received_ns = wall_ns()  # a run being born was heard of now
        self.first_ns = 0
        self._ordinal = 1
        self._streams: dict[str, SequenceSet] = {}
        self._spans_made: dict[str, int] = {}
        self._open_waits: dict[str, tuple[int, list[rollup.OpenWait]]] = {}
        self._dirty: rollup.Dirty = {}
        self._pace = rollup.Pace()
        self._labels = Labels()
        self._card = self._draw_card()

    def _load(self, snapshot: Snapshot) -> None:
        """Read what is known of the run."""
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
        # A file of an older version, which is only read, may lack the table.
        said = run("SELECT said FROM labels").fetchone() if columns_of(snapshot, "labels") else None
        self._labels = Labels() if said is None else decode_json(said[0], Labels)
        self._card = self._draw_card()

    # -- storing

    @abstractmethod
    def _commit(self) -> AbstractContextManager[Insert]:
        """Give what inserts rows: all of them count when the block ends, or none."""

    def _part(self) -> AbstractContextManager[Insert]:
        """Give what inserts rows of a run that comes from elsewhere, which nobody sees before it is whole."""
        return self._commit()

    @abstractmethod
    def _replace(self, table: str, columns: Columns) -> None:
        """Store rows of a table of ``schema.REPLACED``. Older rows with the same key are replaced."""

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store the envelopes that are new, all of them or none; return them."""
        with self.lock:
            fresh = self._fresh(envelopes)
            if not fresh:
                return []
            now_ns = wall_ns()
            events = [event for each in fresh if (event := self._event(each))]
            tables = rows.gather(fresh, self.facts)
            firsts = [rows.first_time(each) for each in fresh]
            with self._commit() as insert:
                fresh_dirty = self._insert_rows(insert, tables, events)
                insert("acked", _fresh_columns(fresh, firsts, now_ns))
            self._add_dirty(fresh_dirty)
            self.newest_ns = max(self.newest_ns, *(each.made_ns for each in fresh))
            self.first_ns = min(self.first_ns or firsts[0], *firsts)
            self.received_ns = now_ns
            self.changed = True
            for each in fresh:
                self._note_open_waits(each)
            if any(facts for _, _, facts, _, _ in events):
                self._card = self._draw_card()
            return fresh

    def bring_in(self, tables: dict[str, rows.Arrays], events: Sequence[Event]) -> None:
        """Store rows and events of a run that comes from elsewhere."""
        with self.lock:
            with self._part() as insert:
                fresh_dirty = self._insert_rows(insert, tables, events)
            self._add_dirty(fresh_dirty)

    def _insert_rows(
        self, insert: Insert, tables: dict[str, rows.Arrays], events: Sequence[Event]
    ) -> list[tuple[int, str, int]]:
        """Insert rows and events; return the buckets that become dirty with them."""
        fresh_dirty = rollup.mark_dirty(rows.touched_buckets(tables), self._dirty)
        if fresh_dirty:  # first: a bucket that is taken for dirty costs time only
            insert("dirty", dirty_columns(fresh_dirty))
        for name, arrays in tables.items():
            insert(name, arrays)
        if "steps" in tables and (long := rows.long_steps(tables["steps"])):
            insert("long_steps", long)
        if events:
            insert("events", _event_columns(events))
        return fresh_dirty

    def _add_dirty(self, fresh_dirty: Iterable[tuple[int, str, int]]) -> None:
        for index, name, t_ns in fresh_dirty:
            self._dirty.setdefault((index, name), set()).add(t_ns)

    def save_alerts(self, alerts: Sequence[StoredAlert]) -> None:
        """Insert or replace alerts by id."""
        newest = {alert.id: alert for alert in alerts}.values()
        if newest:
            names = StoredAlert.__struct_fields__
            self._replace(
                "alerts", {name: _column([getattr(alert, name) for alert in newest]) for name in names}
            )

    def label(self, said: Labels) -> None:
        """Replace what people have said of the run."""
        with self.lock:
            self._replace("labels", {"said": _column([msgspec.json.encode(said).decode()])})
            self._labels = said
            self._card = self._draw_card()
            self.changed = True

    def see_room(self) -> None:
        """Do nothing while more can be stored.

        Raises:
            Behind: too many time buckets of the run wait to be summed up.
        """
        waiting = sum(map(len, self._dirty.values()))
        if waiting > rollup.MOST_DIRTY:
            raise Behind(
                f"{waiting} time buckets of run {self.run_id} wait to be summed up; send it again later"
            )

    def _fresh(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        fresh = []
        for envelope in envelopes:
            seen = self._streams.setdefault(envelope.stream, SequenceSet())
            if envelope.seq not in seen:
                seen.add(envelope.seq)
                fresh.append(envelope)
        return fresh

    def _event(self, envelope: Envelope) -> Event | None:
        new = self.facts.take(envelope)
        last = self._spans_made.get(envelope.stream)
        spans = bool(envelope.spans) and (
            last is None or not 0 <= envelope.made_ns - last < SPANS_EVERY_NS or envelope.final
        )
        lost = sum(loss.count for loss in envelope.losses)
        if not (new or spans or envelope.stacks or envelope.losses or envelope.gpu_states):
            return None
        if spans:
            self._spans_made[envelope.stream] = envelope.made_ns
        self.lost_records += lost
        self._ordinal += 1
        body = pack_event(envelope, facts=new, spans=spans)
        return (self._ordinal, envelope.made_ns, new, lost, body)

    def kept(self, envelope: Envelope, is_fact: bool) -> Event:
        """Return the event of another store, which held it under the same run, as one of this."""
        self.facts.take(envelope)
        lost = sum(loss.count for loss in envelope.losses)
        self.lost_records += lost
        self._ordinal += 1
        body = pack_event(envelope, facts=True, spans=True)
        return (self._ordinal, envelope.made_ns, is_fact, lost, body)

    def _note_open_waits(self, envelope: Envelope) -> None:
        known = self._open_waits.get(envelope.stream)
        if known is not None and known[0] > envelope.made_ns:
            return
        waits = self._waits_of(envelope.spans, envelope.made_ns)
        if known is not None:  # a wait in which the process died lasted until its death
            dead = {process.rank for process in envelope.processes if process.state == "crashed"}
            waits += [wait for wait in known[1] if wait.rank in dead]
        self._open_waits[envelope.stream] = (envelope.made_ns, waits)

    def _last_waits(
        self, newest_bodies: Callable[[], Iterable[bytes]]
    ) -> dict[str, tuple[int, list[rollup.OpenWait]]]:
        """Return, for each stream, its newest time and the waits in which processes died."""
        dead = {rank for rank, process in self.facts.processes.items() if process.state == "crashed"}
        found: dict[str, tuple[int, list[rollup.OpenWait]]] = {}
        for body in newest_bodies() if dead else ():
            envelope = unpack_event(body)
            last = [span for span in envelope.spans if span.worker < 0 and span.alive and span.rank in dead]
            dead -= {span.rank for span in last}
            _, waits = found.setdefault(envelope.stream, (envelope.made_ns, []))
            waits += self._waits_of(last, envelope.made_ns)
        return found

    def _waits_of(self, spans: Sequence[SpanInfo], made_ns: int) -> list[rollup.OpenWait]:
        return [
            rollup.OpenWait(span.rank, span.since_ns, made_ns)
            for span in spans
            if span.phase == "wait"
            and span.worker < 0
            and span.alive
            and span.since_ns < made_ns
            and self.facts.is_train(span.rank, span.loader)
        ]

    def open_waits(self) -> list[rollup.OpenWait]:
        """Return the data waits that are open by each host's newest envelope, and those that ended with their process."""
        return [wait for _, waits in list(self._open_waits.values()) for wait in waits]

    def stored_seq(self, stream: str) -> int:
        """Return the highest sequence number stored of a stream."""
        seen = self._streams.get(stream)
        return seen.highest if seen else 0

    def stored_run(self) -> StoredRun:
        """Return what is known of the run without reading rows."""
        return msgspec.structs.replace(
            self._card,
            last_seen_ns=self.newest_ns,
            received_ns=self.received_ns,
            lost_records=self.lost_records,
            bytes=self._bytes(),
        )

    @abstractmethod
    def _bytes(self) -> int:
        """Return how many bytes the run takes on disk."""

    @property
    def rank_hosts(self) -> dict[int, str]:
        """The host of each rank; do not change this."""
        return self._card.rank_hosts

    def _draw_card(self) -> StoredRun:
        """Freeze the facts for readers in other threads; this is done again when an envelope changed them."""
        facts = self.facts
        return StoredRun(
            run_id=self.run_id,
            name=facts.name,
            started_ns=facts.started_ns or self.first_ns,
            last_seen_ns=self.newest_ns,
            received_ns=self.received_ns,
            world_size=facts.world_size,
            hosts=list(facts.hosts.values()),
            state=facts.state,
            processes=[facts.processes[rank] for rank in sorted(facts.processes)],
            rank_hosts=dict(facts.rank_hosts),
            gpus=dict(facts.gpus),
            attempt=facts.attempt,
            attempt_ns=facts.attempt_ns,
            earlier=list(facts.earlier),
            labels=self._labels,
        )


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return an array of Python objects."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def acked_columns(
    sequences: Mapping[str, Iterable[tuple[int, int]]], newest_ns: int, received_ns: int, first_ns: int
) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``acked`` for all envelopes of a run, which share their times."""
    every = [(stream, low, high) for stream, each in sequences.items() for low, high in each]
    streams, lows, highs = zip(*every, strict=True)
    times = {"made_ns": newest_ns, "received_ns": received_ns, "first_ns": first_ns}
    return {
        "stream": objects(streams),
        "low": np.array(lows),
        "high": np.array(highs),
        **{name: np.full(len(every), time_ns) for name, time_ns in times.items()},
    }


def _column(values: Sequence[str | int | None]) -> NDArray[Any]:
    """Return texts, or integers with UNKNOWN for None, as a column."""
    if isinstance(values[0], str):
        return objects(values)
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)


def _fresh_columns(fresh: Sequence[Envelope], firsts: Sequence[int], now_ns: int) -> dict[str, NDArray[Any]]:
    """Return the columns of ``acked`` for envelopes that come now; ``firsts`` are the times at which each begins, ns UTC."""
    return {
        "stream": objects([envelope.stream for envelope in fresh]),
        "low": np.array([envelope.seq for envelope in fresh]),
        "high": np.array([envelope.seq for envelope in fresh]),
        "made_ns": np.array([envelope.made_ns for envelope in fresh]),
        "first_ns": np.array(firsts),
        "received_ns": np.full(len(fresh), now_ns),
    }


def dirty_columns(buckets: Sequence[tuple[int, str, int]]) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``dirty`` for buckets: level, source and beginning of each."""
    levels, sources, times = zip(*buckets, strict=True)
    return {"level": np.array(levels), "source": objects(sources), "t_ns": np.array(times)}


def _event_columns(events: Sequence[Event]) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``events``."""
    ordinals, times, facts, lost, bodies = zip(*events, strict=True)
    return {
        "ordinal": np.array(ordinals),
        "t_ns": np.array(times),
        "facts": np.array(facts, dtype=bool),
        "lost": np.array(lost),
        "body": objects(bodies),
    }
