"""The envelope that a streamer sends to a server, about twice a second: MessagePack, in columns.

``encode`` and ``decode`` are the only ways in and out. ``decode`` checks all possible faults of a sender and
names the field, so its result can be trusted. For files and answers, there is ``decode_json``.
"""

from __future__ import annotations

import math
import re
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from loaderwatch.core.errors import WireError
from loaderwatch.core.facts import (
    MAX_NAME,
    MAX_RANKS,
    GpuInfo,
    GpuState,
    HostInfo,
    Int,
    Loss,
    ProcessInfo,
    ProfileStack,
    SpanInfo,
    StackDump,
)
from loaderwatch.core.records import LATER_COLUMNS, TABLES, UNKNOWN, Column

_T = TypeVar("_T")
_decoders: Final[dict[Any, Callable[[bytes | bytearray | str], Any]]] = {}
_making: Final = threading.Lock()

SCHEMA_VERSION: Final = 1
MAX_ENVELOPE_BYTES: Final = 8 * 2**20
MAX_TOGETHER: Final = 64  # maximum envelopes in one request
TOGETHER_BYTES: Final = 2**20  # about the maximum bytes of several envelopes in one request
MAX_ROWS: Final = 200_000
MAX_TEXT: Final = 64 * 1024
CLOSING_NAME: Final = "closing.json"  # beside the rings: a ``Closing``
CLOSED_NAME: Final = "closed"  # beside the rings, once a process has printed the run's last line
QUIET_S: Final = 20.0
"""Quiet time of stderr after the run's last line. A hang at a process's end is reported from 30 s on."""
MAX_WORDS: Final = 256 * 1024
"""Maximum characters of one process's name, folder and arguments together; streamers send at most 100,000."""
MAX_ITEMS: Final = 100_000
"""Maximum of processes, loaders, spans, arguments and similar items in one envelope.

Each has at least 2 bytes in MessagePack and 60 in memory. 64 ranks with 16 workers each have about 2,000.
"""
MAX_VALUES: Final = 500_000
"""Maximum MessagePack values in one envelope, including keys of maps.

Each takes 1 byte or more, and up to 200 in memory. 64 ranks with 16 workers each have about 60,000.
"""
UNCOUNTED_BYTES: Final = 256 * 1024
"""The values of a smaller envelope are not counted: they take at most about 50 MB of memory."""
MAX_AGAIN: Final = 16
"""Maximum processes with the same rank as another one in the envelope.

Each may begin an attempt, for which all ranks are examined.
"""
RUN_ID_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z")


UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Errors of msgspec for foreign bytes, also for text that is not UTF-8, or nested too deep for Python."""

Table = Annotated[dict[str, bytes], msgspec.Meta(max_length=200)]


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a streamer.

    ``tables`` maps a table of ``records.TABLES`` to its columns, each as raw little-endian bytes of its
    values. A server stores each ``(stream, seq)`` once. ``seq`` counts from 1 without gaps.
    """

    schema: Int = SCHEMA_VERSION
    run_id: str
    run_name: str
    stream: str  # one per host and run, survives a streamer's takeover
    seq: Int
    made_ns: Int  # UTC, when the spans were read
    host: HostInfo
    processes: list[ProcessInfo] = []
    spans: list[SpanInfo] = []
    gpus: list[GpuInfo] = []
    gpu_states: list[GpuState] = []  # every few seconds, of all GPUs
    tables: Annotated[dict[str, Table], msgspec.Meta(max_length=100)] = {}
    stacks: list[StackDump] = []
    # Texts of the stacks in the table "profile": each before its first count, and again now and then.
    profile_stacks: list[ProfileStack] = []
    losses: list[Loss] = []
    final: bool = False  # every process of the run on this host has ended


ENVELOPE_S: Final = 0.5
"""How often a stream sends an envelope, unless a receipt says otherwise."""
SLOWEST_ENVELOPES_S: Final = 5.0
"""Longest interval between envelopes, whatever a receipt says: a host is lost after 15 s of silence."""


class StackRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The server's request for fresh stacks of a rank and its workers."""

    rank: int


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """A line to write once to a rank's stderr."""

    rank: int
    text: str


class Closing(msgspec.Struct, frozen=True, kw_only=True):
    """What the training process of the lowest rank prints at its end, after its own steps and duration."""

    lost: str  # "41 min (33 %) lost"
    lines: list[str] = []  # what the time was lost to
    advice: str = ""  # what to change first
    link: str = ""  # to the page
    found: bool = False  # there was an alert


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The server's answer to an envelope (JSON)."""

    stored_seq: int
    stack_requests: list[StackRequest] = []
    notices: list[Notice] = []
    notifies: bool = False  # this server has the notification addresses of the run
    closing: Closing | None = None  # the current one, now and then
    envelope_s: float = ENVELOPE_S  # how often the stream should send an envelope


_COLUMN_NAMES: Final = {
    name: frozenset(column.name for column in columns) for name, columns in TABLES.items()
}
_LAYOUT: Final = (
    *((0, 0, 0),) * 0x80,  # small numbers
    *((2, 0, pairs) for pairs in range(16)),
    *((1, 0, items) for items in range(16)),
    *((0, 0, length) for length in range(32)),  # short texts
    *((0, 0, 0),) * 4,  # nil, an unused byte, and the booleans
    *((0, 1, 0), (0, 2, 0), (0, 4, 0)),  # binaries
    *((0, 1, 1), (0, 2, 1), (0, 4, 1)),  # extensions, with the byte of their type
    *((0, 0, size) for size in (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)),  # numbers
    *((0, 0, 1 + size) for size in (1, 2, 4, 8, 16)),  # extensions of fixed sizes
    *((0, 1, 0), (0, 2, 0), (0, 4, 0)),  # texts
    *((1, 2, 0), (1, 4, 0)),  # arrays
    *((2, 2, 0), (2, 4, 0)),  # maps
    *((0, 0, 0),) * 32,  # small negative numbers
)
"""For each first byte of a MessagePack value, three numbers.

- How many values each of its items is (0: its items are bytes).
- In how many bytes its length follows.
- The length that the byte itself gives.
"""
_encoder: Final = msgspec.msgpack.Encoder()


class _OfRun(msgspec.Struct):
    """An envelope of which only the run is read."""

    run_id: str


_of_run: Final = msgspec.msgpack.Decoder(_OfRun)
_several: Final = msgspec.msgpack.Decoder(list[bytes])
_decoder: Final = msgspec.msgpack.Decoder(Envelope)


def pack_column(column: Column, values: Iterable[float | int | None]) -> bytes:
    """Return values as raw bytes; None becomes the column's "not known"."""
    if column.dtype == "i8":
        return array("q", [UNKNOWN if value is None else int(value) for value in values]).tobytes()
    return array("d", [math.nan if value is None else float(value) for value in values]).tobytes()


def pack_table(table: str, rows: Sequence[Sequence[float | int | None]]) -> dict[str, bytes]:
    """Return rows, in the column order of ``TABLES[table]``, as columns of bytes."""
    columns = TABLES[table]
    transposed = zip(*rows, strict=True) if rows else ((),) * len(columns)
    return {
        column.name: pack_column(column, values) for column, values in zip(columns, transposed, strict=True)
    }


def row_count(table: dict[str, bytes]) -> int:
    """Return how many rows a checked table has."""
    return len(next(iter(table.values()))) // 8 if table else 0


def encode(envelope: Envelope) -> bytes:
    """Return the envelope as MessagePack."""
    return _encoder.encode(envelope)


def join(payloads: Sequence[bytes]) -> bytes:
    """Make the body of one request: a single envelope unchanged, several as an array of binaries."""
    return payloads[0] if len(payloads) == 1 else _encoder.encode(payloads)


def split(body: bytes) -> list[bytes]:
    """Split the body of a request into its envelopes, without decoding them.

    Raises:
        WireError: the body is an array, but not of 1 to ``MAX_TOGETHER`` binaries.
    """
    if not body or not (body[0] & 0xF0 == 0x90 or body[0] in (0xDC, 0xDD)):  # MessagePack's arrays
        return [body]
    if body[0] == 0xDD:  # up to four billion items: the decoder would allocate the declared size
        raise WireError("(body)", f"at most {MAX_TOGETHER} envelopes may come together")
    try:
        payloads = _several.decode(body)
    except UNDECODABLE as error:
        raise WireError("(body)", f"neither an envelope nor an array of them: {error}") from error
    if not 1 <= len(payloads) <= MAX_TOGETHER:
        raise WireError("(body)", f"{len(payloads)} envelopes; 1 to {MAX_TOGETHER} may come together")
    return payloads


def run_of(payload: bytes) -> str | None:
    """Return the run of an envelope without decoding the rest; None if it names no run."""
    try:
        return _of_run.decode(payload).run_id
    except UNDECODABLE:
        return None


def decode(payload: bytes, unknown: set[str] | None = None) -> Envelope:
    """Decode and check an envelope; leave out a newer version's tables and columns, named in ``unknown``.

    Raises:
        WireError: this version cannot store the envelope; the error names the field.
    """
    if len(payload) > MAX_ENVELOPE_BYTES:
        raise WireError("(body)", f"{len(payload)} bytes; at most {MAX_ENVELOPE_BYTES} are accepted")
    if len(payload) > UNCOUNTED_BYTES:
        check_values(payload, MAX_VALUES)
    try:
        envelope = _decoder.decode(payload)
    except msgspec.ValidationError as error:
        message = str(error)
        where = (
            message.rpartition(" - at `$")[2].rstrip("`").lstrip(".") if " - at `$" in message else "(body)"
        )
        raise WireError(where or "(body)", message.partition(" - at `$")[0]) from error
    except UNDECODABLE as error:
        raise WireError("(body)", f"not MessagePack: {error}") from error
    _check(envelope)
    check_tables(envelope.tables, unknown if unknown is not None else set())
    return envelope


def check_values(data: bytes | memoryview, most: int) -> None:
    """Check that MessagePack has at most ``most`` values, before a decoder makes objects of them.

    Raises:
        WireError: it has more, or it is truncated.
    """
    at, awaited, left, end = 0, 1, most, len(data)
    while awaited:
        # Each value has at least one byte, so an array or map cannot have more values than there are bytes.
        if awaited > end - at:
            raise WireError("(body)", "not MessagePack: it is cut off")
        if awaited > left:
            raise WireError("(body)", f"more than {most:,} values")
        inner, length_bytes, length = _LAYOUT[data[at]]
        at += 1
        if length_bytes:
            length += int.from_bytes(data[at : at + length_bytes], "big")
            at += length_bytes
        awaited -= 1
        left -= 1
        if inner:
            awaited += inner * length
        else:
            at += length
    if at > end:
        raise WireError("(body)", "not MessagePack: it is cut off")


def check_tables(tables: dict[str, dict[str, bytes]], unknown: set[str]) -> None:
    """Check tables; leave out tables and columns unknown to this version, and add them to ``unknown``.

    Raises:
        WireError: a column is missing or damaged.
    """
    _leave_out_unknown(tables, unknown)
    for name, table in tables.items():
        _check_table(name, table)


def _check(envelope: Envelope) -> None:
    if envelope.schema != SCHEMA_VERSION:
        raise WireError(
            "schema", f"{envelope.schema}; this server reads {SCHEMA_VERSION}: upgrade the older side"
        )
    if not RUN_ID_PATTERN.match(envelope.run_id):
        raise WireError(
            "run_id", f"{envelope.run_id[:80]!r}; use 1 to 64 of a-z 0-9 _ - beginning with a letter or digit"
        )
    if len(envelope.run_name) > MAX_NAME:
        raise WireError("run_name", f"{len(envelope.run_name)} characters; at most {MAX_NAME}")
    if not RUN_ID_PATTERN.match(envelope.stream):
        raise WireError("stream", f"{envelope.stream[:80]!r}; use 1 to 64 of a-z 0-9 _ -")
    if envelope.seq < 1:
        raise WireError("seq", f"{envelope.seq}; envelopes are numbered from 1")
    if not 0 < envelope.made_ns < 2**62:
        raise WireError("made_ns", f"{envelope.made_ns}; not a time")
    items = item_count(envelope)
    if items > MAX_ITEMS:
        raise WireError("(body)", f"{items} processes, loaders, spans and the like; at most {MAX_ITEMS}")
    repeated = len(envelope.processes) - len({process.rank for process in envelope.processes})
    if repeated > MAX_AGAIN:
        raise WireError(
            "processes", f"{repeated} are of a rank that another one has; at most {MAX_AGAIN} may be"
        )
    for index, process in enumerate(envelope.processes):
        words = len(process.name) + len(process.cwd) + sum(map(len, process.argv))
        if words > MAX_WORDS:
            raise WireError(
                f"processes[{index}]", f"{words} characters of names and arguments; at most {MAX_WORDS}"
            )
    check_texts("stacks", envelope.stacks)
    check_texts("profile_stacks", envelope.profile_stacks)


def check_texts(name: str, stacks: Sequence[StackDump | ProfileStack]) -> None:
    """Raise WireError if a stack's text is too long. ``name`` is the field with the stacks."""
    for index, stack in enumerate(stacks):
        if len(stack.text) > MAX_TEXT:
            raise WireError(f"{name}[{index}].text", f"{len(stack.text)} characters; at most {MAX_TEXT}")


def item_count(envelope: Envelope) -> int:
    """Return how many items besides rows an envelope has."""
    own = len(envelope.spans) + len(envelope.gpus) + len(envelope.stacks) + len(envelope.losses)
    own += len(envelope.profile_stacks)
    own += sum(1 + len(state.processes) for state in envelope.gpu_states)
    return own + sum(
        1
        + len(process.argv)
        + len(process.loaders)
        + len(process.phase_names)
        + len(process.thread_limits or ())
        + sum(1 + len(group.entries) for group in process.flight)
        for process in envelope.processes
    )


def _leave_out_unknown(tables: dict[str, dict[str, bytes]], unknown: set[str]) -> None:
    """Delete a newer streamer's tables and columns that this version does not know, and keep the rest."""
    for name, table in list(tables.items()):
        known = _COLUMN_NAMES.get(name)
        if known is None:
            unknown.add(f"tables.{name[:40]}")
            del tables[name]
            continue
        for column in table.keys() - known:
            unknown.add(f"tables.{name}.{column[:40]}")
            del table[column]


def _check_table(name: str, table: dict[str, bytes]) -> None:
    columns = TABLES[name]
    lengths = set()
    later = LATER_COLUMNS.get(name, frozenset())
    for column in columns:
        data = table.get(column.name)
        if data is None and column.name in later and table:
            # The envelope's streamer is older than this column, or the envelope waited in an outbox.
            rows = len(next(iter(table.values()))) // 8
            data = table[column.name] = pack_column(column, [None] * rows)
        if data is None:
            raise WireError(f"tables.{name}.{column.name}", "missing")
        if len(data) % 8:
            raise WireError(
                f"tables.{name}.{column.name}", f"{len(data)} bytes is not a whole number of values"
            )
        lengths.add(len(data) // 8)
    if len(lengths) != 1:
        raise WireError(f"tables.{name}", f"columns of different lengths: {sorted(lengths)}")
    rows = lengths.pop()
    if rows > MAX_ROWS:
        raise WireError(f"tables.{name}", f"{rows} rows; at most {MAX_ROWS}")
    ranks = table.get("rank")
    if ranks and (highest := max(memoryview(ranks).cast("q"))) >= MAX_RANKS:
        raise WireError(f"tables.{name}.rank", f"{highest}; ranks are below {MAX_RANKS}")


def decode_json(data: bytes | bytearray | str, kind: type[_T]) -> _T:
    """Return JSON as a value of a type.

    msgspec analyses a type at its first use. Two threads that do so at once crash the interpreter (msgspec
    0.22.0: one finds a field whose type is not set yet). Here, only one thread does so. Elsewhere, decoders
    are made when modules are imported.

    Raises:
        UNDECODABLE: the data is not JSON, or of another type.
    """
    look_at(kind)
    value: _T = _decoders[kind](data)
    return value


def look_at(kind: type[Any]) -> None:
    """Have msgspec analyse a type, before ``msgspec.convert`` would."""
    if kind not in _decoders:
        with _making:
            _decoders[kind] = msgspec.json.Decoder(kind).decode
