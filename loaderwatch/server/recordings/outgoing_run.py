"""A run that is read from a store or a recording to be moved: its parts, and the rest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from loaderwatch.core import wire
from loaderwatch.core.clock import END_OF_TIME_NS, SECOND_NS
from loaderwatch.core.columns import Columns
from loaderwatch.core.errors import LoaderwatchError, WireError
from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.server.live.summary import state_now
from loaderwatch.server.recordings.analysis import alerts_of
from loaderwatch.server.recordings.recording import BadRecording, Recording
from loaderwatch.server.store import rows
from loaderwatch.server.store.facts import RunFacts
from loaderwatch.server.store.protocol import Part, Rest, Store
from loaderwatch.server.store.schema import DERIVED
from loaderwatch.server.store.sequence_set import SequenceSet
from loaderwatch.server.store.sql.transfer import check_rest, event_of, fingerprint

PART_BYTES: Final = 600_000
"""About the bytes of a part. With one event, which may be larger, it fits into a request."""
_ENOUGH_ROWS: Final = 50_000
_STRETCH_NS: Final = 60 * SECOND_NS
_LONGEST_NS: Final = 3600 * SECOND_NS
"""A run is read in stretches that have ``_ENOUGH_ROWS`` rows or last an hour."""


class StillReports(LoaderwatchError):
    """The run is not over yet."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"run {run_id} still reports; it can be moved when it is over")


@dataclass(frozen=True, slots=True)
class MovedRun:
    """A run in the form that an ``Arrival`` takes. ``parts`` may be called several times."""

    run_id: str
    name: str
    parts: Callable[[], Iterator[Part]]
    rest: Rest

    def fingerprint(self) -> str:
        """Return the run's fingerprint. This reads the whole run, and raises StoreError or WireError."""
        return fingerprint(self.parts(), self.rest.sequences)


def of_store(store: Store, run_id: str) -> MovedRun:
    """Return a run of a store that is over.

    Raises:
        UnknownRun, StoreError
        StillReports
    """
    run = store.run(run_id)
    if state_now(run, time.time_ns()) == "live":
        raise StillReports(run_id)
    first_ns, newest_ns = store.bounds(run_id)
    rest = Rest(
        first_ns=first_ns,
        newest_ns=newest_ns,
        received_ns=run.received_ns,
        sequences=store.sequences(run_id),
        alerts=store.alerts(run_id),
        labels=run.labels,
    )
    return MovedRun(run_id, run.name, lambda: _large(_stored(store, run_id)), rest)


def of_recording(recorded: Recording, path: Path) -> MovedRun:
    """Return the run of a recording after checking all of it; raise BadRecording if no run can have it."""
    try:
        rest = _rest_of(recorded)
        check_rest(rest, recorded.run_id)
        for _ in _recorded(recorded):
            pass
    except WireError as error:
        raise BadRecording(path, str(error)) from error
    return MovedRun(recorded.run_id, recorded.run_name, lambda: _large(_recorded(recorded)), rest)


def _rest_of(recorded: Recording) -> Rest:
    numbers: dict[str, SequenceSet] = {}
    first_ns, newest_ns = END_OF_TIME_NS, 0
    for envelope in recorded.decoded():
        if envelope.run_id != recorded.run_id:
            raise WireError("run_id", f"{envelope.run_id!r} in a recording of {recorded.run_id[:80]!r}")
        numbers.setdefault(envelope.stream, SequenceSet()).add(envelope.seq)
        first_ns = min(first_ns, rows.first_time(envelope))
        newest_ns = max(newest_ns, envelope.made_ns)
    sequences = {stream: number_set.intervals() for stream, number_set in numbers.items()}
    rest = recorded.rest
    if rest is None:  # an older or redacted recording
        return Rest(
            first_ns=first_ns,
            newest_ns=newest_ns,
            received_ns=newest_ns,
            sequences=sequences,
            alerts=alerts_of(recorded),
        )
    return rest if rest.sequences else msgspec.structs.replace(rest, sequences=sequences)


def _recorded(recorded: Recording) -> Iterator[Part]:
    """Yield a part per envelope. Of raw envelopes, only those that a store would keep become events."""
    facts = RunFacts()
    seen: set[tuple[str, int]] = set()
    for place, envelope in enumerate(recorded.decoded()):
        if (envelope.stream, envelope.seq) in seen:
            continue
        seen.add((envelope.stream, envelope.seq))
        has_new_facts = facts.take(envelope)
        is_event = has_new_facts or bool(
            envelope.spans or envelope.stacks or envelope.losses or envelope.gpu_states or envelope.final
        )
        body = envelope
        if recorded.rest is None and not has_new_facts:
            body = msgspec.structs.replace(envelope, processes=[], gpus=[])
        stored_counted = recorded.counted[place] if place < len(recorded.counted) else None
        yield Part(
            tables=envelope.tables,
            counted=stored_counted if stored_counted is not None else _counted(envelope, facts),
            hosts=[envelope.host.name] * wire.row_count(envelope.tables.get("hosts", {})),
            events=[event_of(body, facts=has_new_facts)] if is_event or recorded.rest is not None else [],
            profile_stacks=envelope.profile_stacks,
        )


def _counted(envelope: wire.Envelope, facts: RunFacts) -> dict[str, bytes]:
    return {
        name: arrays["counted"].astype("<u1").tobytes()
        for name, arrays in rows.gather([envelope], facts).items()
        if "counted" in arrays
    }


def _stored(store: Store, run_id: str) -> Iterator[Part]:
    for event in store.all_events(run_id):
        yield Part(events=[event_of(event.body, facts=event.facts)])
    for stack in store.all_profile_stacks(run_id):
        yield Part(profile_stacks=[stack])
    for table in TABLES:
        at_once = max(1, PART_BYTES // (9 * len(TABLES[table])))
        for columns in _stretches(store, run_id, table):
            for begin in range(0, len(columns[TIME_COLUMN[table]]), at_once):
                yield _part(table, {name: data[begin : begin + at_once] for name, data in columns.items()})


def _stretches(store: Store, run_id: str, table: str) -> Iterator[Columns]:
    """Yield all rows of a table in stretches of time. Times without rows are skipped."""
    long_ns = _STRETCH_NS
    begin_ns = store.next_row(run_id, table, 0)
    while begin_ns is not None:
        columns = store.scan(run_id, table, begin_ns, begin_ns + long_ns, counted=True)
        yield columns
        is_sparse = len(columns[TIME_COLUMN[table]]) < _ENOUGH_ROWS
        begin_ns = store.next_row(run_id, table, begin_ns + long_ns)
        long_ns = min(2 * long_ns, _LONGEST_NS) if is_sparse else max(SECOND_NS, long_ns // 2)


def _part(table: str, columns: Columns) -> Part:
    counted = columns.get("counted") if "counted" in DERIVED.get(table, ()) else None
    return Part(
        tables={
            table: {
                column.name: np.ascontiguousarray(columns[column.name], dtype=f"<{column.dtype}").tobytes()
                for column in TABLES[table]
            }
        },
        counted={} if counted is None else {table: counted.astype("<u1").tobytes()},
        hosts=columns["host"].tolist() if table == "hosts" else [],
    )


def _large(parts: Iterator[Part]) -> Iterator[Part]:
    """Join small consecutive parts."""
    joined: list[Part] = []
    joined_bytes = 0
    for part in parts:
        part_bytes = sum(len(data) for table in part.tables.values() for data in table.values())
        part_bytes += sum(len(event.body) for event in part.events)
        part_bytes += sum(len(stack.text) for stack in part.profile_stacks)
        if joined and joined_bytes + part_bytes > PART_BYTES:
            yield _joined(joined)
            joined, joined_bytes = [], 0
        joined.append(part)
        joined_bytes += part_bytes
    if joined:
        yield _joined(joined)


def _joined(parts: list[Part]) -> Part:
    tables: dict[str, dict[str, list[bytes]]] = {}
    counted: dict[str, list[bytes]] = {}
    for part in parts:
        for name, table in part.tables.items():
            for column, data in table.items():
                tables.setdefault(name, {}).setdefault(column, []).append(data)
        for name, data in part.counted.items():
            counted.setdefault(name, []).append(data)
    return Part(
        tables={
            name: {column: b"".join(bits) for column, bits in table.items()} for name, table in tables.items()
        },
        counted={name: b"".join(bits) for name, bits in counted.items()},
        hosts=[host for part in parts for host in part.hosts],
        events=[event for part in parts for event in part.events],
        profile_stacks=[stack for part in parts for stack in part.profile_stacks],
    )
