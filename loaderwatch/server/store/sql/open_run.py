"""What a store keeps in memory of an open run, whichever database holds its rows."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core.answers import Labels
from loaderwatch.core.clock import wall_ns
from loaderwatch.core.facts import SpanInfo
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.facts import RunFacts, pack_event, unpack_event
from loaderwatch.server.store.protocol import Behind, StoredRun
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql import rollup

SPANS_EVERY_NS: Final = 900_000_000
"""Open spans are kept once a second for each stream, which is enough for a replay at 1 Hz."""

LAST_EVENTS: Final = 200
"""How many of the newest events are searched for a process's last span; a host sends about one a second."""

Event = tuple[int, int, bool, int, bytes]
"""A row of the table ``events``: ordinal, time, whether a fact changed, records lost, body."""


class OpenRun(ABC):
    """Facts, sequence numbers and open waits of a run: what is new in an envelope, and what lists of runs show.

    After an error in storing, the object may know more than the database does: drop it and read the run again.
    """

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.lock = threading.RLock()  # held while envelopes are stored
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


def acked_columns(sequences: Mapping[str, Iterable[tuple[int, int]]]) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``acked`` that say which envelopes are stored."""
    every = [(stream, low, high) for stream, each in sequences.items() for low, high in each]
    streams, lows, highs = zip(*every, strict=True)
    return {"stream": objects(streams), "low": np.array(lows), "high": np.array(highs)}


def fresh_columns(fresh: Sequence[Envelope], firsts: Sequence[int]) -> dict[str, NDArray[Any]]:
    """Return the columns of ``acked`` for envelopes that come now; ``firsts`` are the times at which each begins, ns UTC."""
    return {
        "stream": objects([envelope.stream for envelope in fresh]),
        "low": np.array([envelope.seq for envelope in fresh]),
        "high": np.array([envelope.seq for envelope in fresh]),
        "made_ns": np.array([envelope.made_ns for envelope in fresh]),
        "first_ns": np.array(firsts),
    }


def event_columns(events: Sequence[Event]) -> dict[str, NDArray[Any]]:
    """Return the columns of the table ``events``."""
    ordinals, times, facts, lost, bodies = zip(*events, strict=True)
    return {
        "ordinal": np.array(ordinals),
        "t_ns": np.array(times),
        "facts": np.array(facts, dtype=bool),
        "lost": np.array(lost),
        "body": objects(bodies),
    }
