"""An envelope as a file of the outbox: what it covers, the payload, and a checksum over both."""

from __future__ import annotations

import struct
import zlib
from array import array
from collections import Counter
from typing import Final

import msgspec

from loaderwatch.core.errors import WireError
from loaderwatch.core.records import KIND_TABLE
from loaderwatch.core.wire import Envelope, decode, row_count

_HEAD: Final = struct.Struct("<4sIII")  # magic, length of the cursors, length of the payload, crc32 of both
_MAGIC: Final = b"LWE1"


class Covered(msgspec.Struct, frozen=True):
    """What an envelope file says about itself: enough to go on even when the state file is gone."""

    stream: str
    wall_offset_ns: int
    cursors: dict[str, int]


def pack_file(covered: Covered, payload: bytes) -> bytes:
    """The content of an envelope's file."""
    header = msgspec.json.encode(covered)
    crc = zlib.crc32(payload, zlib.crc32(header))
    return _HEAD.pack(_MAGIC, len(header), len(payload), crc) + header + payload


def unpack_file(data: bytes) -> tuple[Covered, bytes] | None:
    """What ``pack_file`` packed; None if it is not whole."""
    if len(data) < _HEAD.size:
        return None
    magic, header_size, payload_size, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEAD.size + header_size + payload_size:
        return None
    header, payload = data[_HEAD.size : _HEAD.size + header_size], data[_HEAD.size + header_size :]
    if zlib.crc32(payload, zlib.crc32(header)) != crc:
        return None
    try:
        return msgspec.json.decode(header, type=Covered), payload
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        return None


def count_rows(payload: bytes) -> Counter[int]:
    """Rows of an envelope by rank, with the losses it would have reported."""
    rows: Counter[int] = Counter()
    try:
        envelope: Envelope = decode(payload)
    except WireError:
        return rows
    for table in envelope.tables.values():
        if "rank" in table:
            rows.update(array("q", table["rank"]))
        else:
            rows[-1] += len(table["t_ns"]) // 8
    for loss in envelope.losses:
        rows[loss.rank] += loss.count
    return rows


def count_ring_rows(payload: bytes) -> int:
    """Rows of an envelope that came from rings."""
    try:
        tables = decode(payload).tables
    except WireError:
        return 0
    return sum(row_count(tables[name]) for name in KIND_TABLE.values() if name in tables)
