"""The state of an open run that a store keeps in memory, for either database."""

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
from loaderwatch.core.facts import ProfileStack, SpanInfo
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.wire import Envelope, decode_json
from loaderwatch.server.store import rows
from loaderwatch.server.store.facts import RunFacts, pack_event, pack_text, unpack_event
from loaderwatch.server.store.protocol import Behind, StoredAlert, StoredRun
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import rollup, row_queries
from loaderwatch.server.store.sql.snapshot import Snapshot, columns_of

SPANS_EVERY_NS: Final = 900_000_000
"""Open spans are stored about once a second per stream, which is enough for a replay at 1 Hz."""

LAST_EVENTS: Final = 200
"""How many events are searched for a dead process's last span. A host sends about one a second."""

Event = tuple[int, int, bool, int, bytes]
"""A row of the table ``events``: ordinal, time, whether a fact changed, records lost, body."""

Insert: TypeAlias = Callable[[str, Columns], None]
"""Inserts rows into a table."""


class OpenRun(ABC):
    """Facts, sequence numbers and open waits of a run, which decide what is new in an envelope.

    Its methods store envelopes, alerts and labels in either database. A subclass inserts rows so that all of
    them count or none. After an error in storing, the object may know more than the database. Drop it then,
    and read the run again.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.lock = threading.RLock()  # held while envelopes are stored
        self.used_s = time.monotonic()
        self.readers = 0
        self.changed = False  # whether something was stored since housekeeping last had nothing to do
        self.facts = RunFacts()
        self.lost_records = 0
        self.newest_ns = 0
        self.received_ns = wall_ns()  # a new run was heard of now
        self.first_ns = 0
        self._ordinal = 1
        self._streams: dict[str, SequenceSet] = {}
        self._profile_stacks: set[int] = set()  # the ids of stored texts
        self._spans_made: dict[str, int] = {}
        self._open_waits: dict[str, tuple[int, list[rollup.OpenWait]]] = {}
        self._dirty: rollup.Dirty = {}
        self._pace = rollup.Pace()
        self._labels = Labels()
        self._card = self._draw_card()

    def _load(self, snapshot: Snapshot) -> None:
        """Read the run's state from the database."""
        execute = snapshot.execute
        for (body,) in execute("SELECT body FROM events WHERE facts ORDER BY ordinal").fetchall():
            self.facts.take(unpack_event(body))
        last, lost = execute("SELECT max(ordinal), sum(lost) FROM events").fetchall()[0]
        self._ordinal = (last or 0) + 1
        self.lost_records = int(lost or 0)
        for stream, intervals in row_queries.sequences(snapshot).items():
            self._streams.setdefault(stream, SequenceSet()).extend(intervals)
        if columns_of(snapshot, "profile_stacks"):  # an older file that is opened read-only may lack it
            self._profile_stacks = {
                number for (number,) in execute("SELECT stack FROM profile_stacks").fetchall()
            }
        newest, received, first = execute(
            "SELECT max(made_ns), max(received_ns), min(first_ns) FROM acked"
        ).fetchall()[0]
        self.newest_ns, self.first_ns = int(newest or 0), int(first or 0)
        self.received_ns = int(received or self.received_ns)
        self._dirty = rollup.load_dirty(snapshot)
        newest_events = f"SELECT body FROM events ORDER BY ordinal DESC LIMIT {LAST_EVENTS}"
        self._open_waits = self._last_waits(lambda: (body for (body,) in execute(newest_events).fetchall()))
        # An older file that is opened read-only may lack the table.
        labels_row = execute("SELECT said FROM labels").fetchone() if columns_of(snapshot, "labels") else None
        self._labels = Labels() if labels_row is None else decode_json(labels_row[0], Labels)
        self._card = self._draw_card()

    # -- storing

    @abstractmethod
    def _commit(self) -> AbstractContextManager[Insert]:
        """Give a function that inserts rows: all of them count when the block ends, or none."""

    def _part(self) -> AbstractContextManager[Insert]:
        """Give a function that inserts rows of a run that is being imported, invisible until it is whole."""
        return self._commit()

    @abstractmethod
    def _replace(self, table: str, columns: Columns) -> None:
        """Store rows of a table in ``schema.REPLACED``. They replace older rows with the same key."""

    def append(self, envelopes: Sequence[Envelope]) -> list[Envelope]:
        """Store the envelopes that are new, all of them or none; return them."""
        with self.lock:
            fresh = self._fresh(envelopes)
            if not fresh:
                return []
            now_ns = wall_ns()
            events = [event for envelope in fresh if (event := self._event(envelope))]
            tables = rows.gather(fresh, self.facts)
            firsts = [rows.first_time(envelope) for envelope in fresh]
            texts = self._fresh_texts(stack for each in fresh for stack in each.profile_stacks)
            with self._commit() as insert:
                fresh_dirty = self._insert_rows(insert, tables, events, texts)
                insert("acked", _fresh_columns(fresh, firsts, now_ns))
            self._add_dirty(fresh_dirty)
            self.newest_ns = max(self.newest_ns, *(envelope.made_ns for envelope in fresh))
            self.first_ns = min(self.first_ns or firsts[0], *firsts)
            self.received_ns = now_ns
            self.changed = True
            for envelope in fresh:
                self._note_open_waits(envelope)
            if any(facts for _, _, facts, _, _ in events):
                self._card = self._draw_card()
            return fresh

    def bring_in(
        self, tables: dict[str, rows.Arrays], events: Sequence[Event], stacks: Sequence[ProfileStack]
    ) -> None:
        """Store rows, events and texts of sampled stacks of a run that is being imported."""
        with self.lock:
            texts = self._fresh_texts(stacks)
            with self._part() as insert:
                fresh_dirty = self._insert_rows(insert, tables, events, texts)
            self._add_dirty(fresh_dirty)

    def _fresh_texts(self, stacks: Iterable[ProfileStack]) -> dict[int, str]:
        """Return the texts that are not stored yet, by id. A streamer sends each of them again and again."""
        texts: dict[int, str] = {}
        for stack in stacks:
            if stack.id not in self._profile_stacks:
                texts[stack.id] = stack.text
                self._profile_stacks.add(stack.id)
        return texts

    def _insert_rows(
        self,
        insert: Insert,
        tables: dict[str, rows.Arrays],
        events: Sequence[Event],
        texts: Mapping[int, str],
    ) -> list[tuple[int, str, int]]:
        """Insert rows, events and texts of sampled stacks; return the buckets that become dirty."""
        fresh_dirty = rollup.mark_dirty(rows.touched_buckets(tables), self._dirty)
        if fresh_dirty:  # first: a bucket that is marked needlessly only costs time
            insert("dirty", dirty_columns(fresh_dirty))
        for name, arrays in tables.items():
            insert(name, arrays)
        if "steps" in tables and (long := rows.long_steps(tables["steps"])):
            insert("long_steps", long)
        if events:
            insert("events", _event_columns(events))
        if texts:
            bodies = objects([pack_text(text) for text in texts.values()])
            insert("profile_stacks", {"stack": np.array(list(texts)), "body": bodies})
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
        """Replace the labels that people gave the run."""
        with self.lock:
            self._replace("labels", {"said": _column([msgspec.json.encode(said).decode()])})
            self._labels = said
            self._card = self._draw_card()
            self.changed = True

    def see_room(self) -> None:
        """Raise Behind if too many time buckets of the run wait to be summed."""
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
        is_new = self.facts.take(envelope)
        last_ns = self._spans_made.get(envelope.stream)
        keeps_spans = bool(envelope.spans) and (
            last_ns is None or not 0 <= envelope.made_ns - last_ns < SPANS_EVERY_NS or envelope.final
        )
        lost = sum(loss.count for loss in envelope.losses)
        if not (is_new or keeps_spans or envelope.stacks or envelope.losses or envelope.gpu_states):
            return None
        if keeps_spans:
            self._spans_made[envelope.stream] = envelope.made_ns
        self.lost_records += lost
        self._ordinal += 1
        body = pack_event(envelope, facts=is_new, spans=keeps_spans)
        return (self._ordinal, envelope.made_ns, is_new, lost, body)

    def kept(self, envelope: Envelope, is_fact: bool) -> Event:
        """Return an event of another store's copy of this run as one of this store."""
        self.facts.take(envelope)
        lost = sum(loss.count for loss in envelope.losses)
        self.lost_records += lost
        self._ordinal += 1
        body = pack_event(envelope, facts=True, spans=True)
        return (self._ordinal, envelope.made_ns, is_fact, lost, body)

    def _note_open_waits(self, envelope: Envelope) -> None:
        previous = self._open_waits.get(envelope.stream)
        if previous is not None and previous[0] > envelope.made_ns:
            return
        waits = self._waits_of(envelope.spans, envelope.made_ns)
        if previous is not None:  # a wait in which the process died ends with its death
            dead = {process.rank for process in envelope.processes if process.state == "crashed"}
            waits += [wait for wait in previous[1] if wait.rank in dead]
        self._open_waits[envelope.stream] = (envelope.made_ns, waits)

    def _last_waits(
        self, newest_bodies: Callable[[], Iterable[bytes]]
    ) -> dict[str, tuple[int, list[rollup.OpenWait]]]:
        """Return, by stream, its newest time and the waits in which processes died."""
        dead = {rank for rank, process in self.facts.processes.items() if process.state == "crashed"}
        waits_by_stream: dict[str, tuple[int, list[rollup.OpenWait]]] = {}
        for body in newest_bodies() if dead else ():
            envelope = unpack_event(body)
            spans = [span for span in envelope.spans if span.worker < 0 and span.alive and span.rank in dead]
            dead -= {span.rank for span in spans}
            _, waits = waits_by_stream.setdefault(envelope.stream, (envelope.made_ns, []))
            waits += self._waits_of(spans, envelope.made_ns)
        return waits_by_stream

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
        """Return the data waits open in each host's newest envelope, and those in which processes died."""
        return [wait for _, waits in list(self._open_waits.values()) for wait in waits]

    def stored_seq(self, stream: str) -> int:
        """Return the highest sequence number stored for a stream."""
        seen = self._streams.get(stream)
        return seen.highest if seen else 0

    def stored_run(self) -> StoredRun:
        """Return what is known about the run without reading rows."""
        return msgspec.structs.replace(
            self._card,
            last_seen_ns=self.newest_ns,
            received_ns=self.received_ns,
            lost_records=self.lost_records,
            bytes=self._bytes(),
        )

    @abstractmethod
    def _bytes(self) -> int:
        """Return the bytes that the run takes on disk."""

    @property
    def rank_hosts(self) -> dict[int, str]:
        """The host of each rank. Do not change the dict."""
        return self._card.rank_hosts

    def _draw_card(self) -> StoredRun:
        """Freeze the facts for readers in other threads; repeat this when an envelope changed them."""
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
    """Return the columns of the table ``acked`` for all envelopes of a run, with the same times for each."""
    rows = [(stream, low, high) for stream, intervals in sequences.items() for low, high in intervals]
    streams, lows, highs = zip(*rows, strict=True)
    times = {"made_ns": newest_ns, "received_ns": received_ns, "first_ns": first_ns}
    return {
        "stream": objects(streams),
        "low": np.array(lows),
        "high": np.array(highs),
        **{name: np.full(len(rows), time_ns) for name, time_ns in times.items()},
    }


def _column(values: Sequence[str | int | None]) -> NDArray[Any]:
    """Return texts or integers as a column, with UNKNOWN for a None among integers."""
    if isinstance(values[0], str):
        return objects(values)
    return np.array([UNKNOWN if value is None else value for value in values], dtype=np.int64)


def _fresh_columns(fresh: Sequence[Envelope], firsts: Sequence[int], now_ns: int) -> dict[str, NDArray[Any]]:
    """Return the columns of ``acked`` for new envelopes. ``firsts`` are their first times, ns UTC."""
    return {
        "stream": objects([envelope.stream for envelope in fresh]),
        "low": np.array([envelope.seq for envelope in fresh]),
        "high": np.array([envelope.seq for envelope in fresh]),
        "made_ns": np.array([envelope.made_ns for envelope in fresh]),
        "first_ns": np.array(firsts),
        "received_ns": np.full(len(fresh), now_ns),
    }


def dirty_columns(buckets: Sequence[tuple[int, str, int]]) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``dirty`` for buckets given as (level, source, begin)."""
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
