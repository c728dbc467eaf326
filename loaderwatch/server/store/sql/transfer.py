"""A run on its way between stores: parts with rows and events, then what is known of the whole."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loaderwatch.core import wire
from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import ProfileStack
from loaderwatch.core.records import TABLES, TIME_COLUMN
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store import rows
from loaderwatch.server.store.facts import RunFacts
from loaderwatch.server.store.protocol import Kept, Part, Rest
from loaderwatch.server.store.rows import Arrays
from loaderwatch.server.store.schema import DERIVED
from loaderwatch.server.store.sql.open_run import Event, OpenRun
from loaderwatch.server.times import check_clock

AT_ONCE: Final = 100_000
"""Rows and events that are stored together, about 20 MB."""


class Arriving(ABC):
    """An ``Arrival`` that stores an open run's rows in large groups."""

    def __init__(self, run: OpenRun) -> None:
        self._run = run
        self._tables: dict[str, list[Arrays]] = {}
        self._events: list[Event] = []
        self._stacks: list[ProfileStack] = []
        self._waiting = 0

    def add(self, part: Part) -> None:
        """Store a part."""
        for kept in part.events:
            envelope = wire.decode(kept.body)
            if envelope.run_id != self._run.run_id or envelope.tables:
                raise WireError("events", "one is of another run, or holds rows")
            check_clock("events", (envelope.made_ns,))
            self._events.append(self._run.kept(envelope, kept.facts))
            self._waiting += 1
        wire.check_texts("profile_stacks", part.profile_stacks)
        self._stacks += part.profile_stacks
        self._waiting += len(part.profile_stacks)
        for name, arrays in arrays_of(part).items():
            times = arrays[TIME_COLUMN[name]]
            check_clock(f"tables.{name}", (int(times.min()), int(times.max())))
            rows.derive(name, arrays, self._run.facts)
            self._tables.setdefault(name, []).append(arrays)
            self._waiting += len(next(iter(arrays.values())))
        if self._waiting >= AT_ONCE:
            self._store()

    def finish(self, rest: Rest) -> None:
        """Make the run visible in the store."""
        self._store()
        self._conclude(rest)

    def _store(self) -> None:
        tables = {
            name: {column: np.concatenate([part[column] for part in parts]) for column in parts[0]}
            for name, parts in self._tables.items()
        }
        events, stacks = self._events, self._stacks
        self._tables, self._events, self._stacks, self._waiting = {}, [], [], 0
        if tables or events or stacks:
            self._bring_in(tables, events, stacks)

    @abstractmethod
    def _bring_in(self, tables: dict[str, Arrays], events: list[Event], stacks: list[ProfileStack]) -> None:
        """Store rows, events and texts of sampled stacks where they are not visible yet."""

    @abstractmethod
    def _conclude(self, rest: Rest) -> None:
        """Store the rest, and make the run visible."""


def arrays_of(part: Part) -> dict[str, Arrays]:
    """Return the rows of a part by table, as columns of arrays; raise WireError if a column is damaged."""
    wire.check_tables(part.tables, set())
    arrays_by_table: dict[str, Arrays] = {}
    for name, table in part.tables.items():
        count = wire.row_count(table)
        if not count:
            continue
        arrays: Arrays = {
            column.name: np.frombuffer(table[column.name], dtype=f"<{column.dtype}")
            for column in TABLES[name]
        }
        if name == "hosts":
            arrays["host"] = np.array(part.hosts, dtype=object)
        if name in part.counted and "counted" in DERIVED.get(name, ()):
            arrays["counted"] = np.frombuffer(part.counted[name], dtype="<u1").astype("<i8")
        if any(len(values) != count for values in arrays.values()):
            raise WireError(f"tables.{name}", "columns of different lengths")
        arrays_by_table[name] = arrays
    return arrays_by_table


def fingerprint(parts: Iterable[Part], sequences: dict[str, list[tuple[int, int]]]) -> str:
    """Return a hash of a run's content that does not depend on how its rows are divided into parts.

    Raises:
        WireError: a part is damaged.
    """
    sums: dict[str, list[int]] = {}
    facts = RunFacts()
    stacks: set[int] = set()
    for part in parts:
        for stack in part.profile_stacks:  # a recording may repeat one, and a store keeps the first
            if stack.id not in stacks:
                stacks.add(stack.id)
                digest = hashlib.sha256(f"{stack.id} {stack.text}".encode()).digest()
                _count(sums, "(profile_stacks)", 1, int.from_bytes(digest[:8], "big"))
        for name, arrays in arrays_of(part).items():
            rows.derive(name, arrays, facts)
            hashes = _hashes(name, arrays)
            _count(sums, name, len(hashes), int(hashes.sum(dtype=np.uint64)))
        for kept in part.events:
            digest = hashlib.sha256(kept.body).digest()
            _count(sums, "(events)", 1, int.from_bytes(digest[:8], "big"))
    content = [sorted(sums.items()), sorted(sequences.items())]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def _count(sums: dict[str, list[int]], name: str, count: int, value: int) -> None:
    sum_of_table = sums.setdefault(name, [0, 0])
    sum_of_table[0] += count
    sum_of_table[1] = (sum_of_table[1] + value) % 2**64


_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_OTHER: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT: Final = np.uint64(29)


def _hashes(name: str, arrays: Arrays) -> NDArray[np.uint64]:
    """Return a hash per row. Their sum does not depend on the rows' order."""
    names = [column.name for column in TABLES[name]] + (["host"] if name == "hosts" else [])
    hashes: NDArray[np.uint64] = np.full(len(arrays[names[0]]), len(names), dtype=np.uint64)
    for column in names:
        hashes = (hashes ^ _bits(arrays[column])) * _ODD
        hashes = (hashes ^ (hashes >> _SHIFT)) * _OTHER
    return hashes


def _bits(values: NDArray[Any]) -> NDArray[np.uint64]:
    if values.dtype == object:
        hashes = {text: hashlib.sha256(text.encode()).digest()[:8] for text in set(values.tolist())}
        return np.array([int.from_bytes(hashes[text], "big") for text in values.tolist()], dtype=np.uint64)
    if values.dtype.kind == "f":
        return np.where(np.isnan(values), np.nan, values + 0.0).view(np.uint64)
    return values.astype(np.int64).view(np.uint64)


def pack(kept_or_rest: Part | Rest) -> bytes:
    """Return a part or the rest as MessagePack."""
    return msgspec.msgpack.encode(kept_or_rest)


def event_of(envelope: Envelope, *, facts: bool) -> Kept:
    """Return an envelope as an event, without its rows and its texts of sampled stacks."""
    slim = msgspec.structs.replace(envelope, tables={}, profile_stacks=[])
    return Kept(facts=facts, body=wire.encode(slim))


def unpack_part(body: bytes) -> Part:
    """Return the part that ``pack`` packed; raise WireError if it is something else."""
    part: Part = _unpacked(_decode_part, body)
    return part


def unpack_rest(body: bytes, run_id: str) -> Rest:
    """Return the rest that ``pack`` packed for a run; raise WireError if it is wrong or something else."""
    rest: Rest = _unpacked(_decode_rest, body)
    check_rest(rest, run_id)
    return rest


def check_rest(rest: Rest, run_id: str) -> None:
    """Raise WireError if the rest of a run has an impossible value."""
    if not 0 < rest.first_ns <= rest.newest_ns < 2**62 or not 0 < rest.received_ns < 2**62:
        raise WireError("first_ns", f"{rest.first_ns} to {rest.newest_ns}: no times")
    check_clock("first_ns", (rest.first_ns, rest.newest_ns, rest.received_ns))
    for stream, intervals in rest.sequences.items():
        possible = intervals and all(1 <= low <= high < 2**62 for low, high in intervals)
        if not wire.RUN_ID_PATTERN.match(stream) or not possible:
            raise WireError("sequences", f"{stream[:80]!r} is no stream, or has no such numbers")
    if not rest.sequences:
        raise WireError("sequences", "there is none")
    for alert in rest.alerts:
        if not alert.id.startswith(f"{run_id}."):
            raise WireError("alerts", f"{alert.id[:80]!r} is of another run")


_decode_part: Final = msgspec.msgpack.Decoder(Part).decode
_decode_rest: Final = msgspec.msgpack.Decoder(Rest).decode


def _unpacked(decode: Any, body: bytes) -> Any:
    try:
        return decode(body)
    except wire.UNDECODABLE as error:
        raise WireError("(body)", str(error)) from error
