"""The outbox: envelopes that wait for the server as files on disk, each with the ring cursors it covers.

An envelope is written to a file before it is sent. The file is removed once the state file says that the
server has it. So a streamer that takes over finds the first unsent record of every ring, and a stream's
numbers never go back. Dropped and rejected envelopes leave gaps, which a server accepts.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
import zlib
from array import array
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.errors import WireError
from loaderwatch.core.records import KIND_TABLE
from loaderwatch.core.wire import MAX_TOGETHER, TOGETHER_BYTES, Envelope, decode, decode_json, row_count
from loaderwatch.streamer.outbox.files import OutboxFiles, StreamState, set_aside

log = logging.getLogger(__name__)

MAX_REJECTED: Final = 20  # rejected files kept for inspection
SAY_AGAIN_S: Final = 60.0
_HEAD: Final = struct.Struct("<4sIII")  # magic, length of the cursors, length of the payload, crc32 of both
_MAGIC: Final = b"LWE1"


@dataclass(slots=True)
class _Waiting:
    seq: int
    size: int
    covered: Covered
    path: Path


class Outbox:
    """The queue between the drain loop (``put``) and the upload (``together``, ``settle``, ``reject``)."""

    def __init__(
        self,
        folder: Path,
        fresh_state: StreamState,
        current_boot: str | None,
        max_bytes: int,
        spare: Path | None = None,
    ) -> None:
        self._files = OutboxFiles(folder, spare)
        self.troubles = self._files.troubles
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._bytes = 0
        self._lost: Counter[int] = Counter()
        self._taken: Counter[int] | None = None  # the losses that envelope ``next_seq`` reports
        self._highest_seen = 0
        self._drop_said_at = -SAY_AGAIN_S
        self.state = self._recover(fresh_state, current_boot)
        # The server may have these envelopes, so they are not dropped before that is clear.
        self._maybe_sent = max((entry.seq for entry in self._of_one_request()), default=0)
        newest = next(reversed(self._waiting.values()), None)
        self._next_seq = max(self.state.settled_seq, self._highest_seen) + 1
        self.cursors: dict[str, int] = dict(newest.covered.cursors if newest else self.state.cursors)
        self.held = list(newest.covered.held if newest else self.state.held)
        self._save_state()

    # -- the drain loop's side

    @property
    def next_seq(self) -> int:
        """The number of the next envelope."""
        return self._next_seq

    def put(self, payload: bytes, cursors: dict[str, int], held: Sequence[tuple[int, ...]] = ()) -> bool:
        """Store the envelope ``next_seq``; return False if there is no room, and count its rows as lost.

        ``held``: rows of "gpu_waits" before the cursors that no envelope holds yet.
        """
        covered = Covered(self.state.stream, self.state.wall_offset_ns, cursors, list(held))
        data = pack_file(covered, payload)
        with self._lock:
            seq = self._next_seq
            while self._bytes + len(data) > self._max_bytes and self._drop_oldest():
                pass
            path = self._files.write(seq, data)
            if path is None:
                self._taken = None  # the losses are in the payload and are counted with it
                self._lost.update(count_rows(payload))
                return False
            self._waiting[seq] = _Waiting(seq, len(data), covered, path)
            self._bytes += len(data)
            self._next_seq = seq + 1
            reported, self._taken = self._taken, None
            if reported or self._lost:
                self._save_state()
            self._arrived.notify()
        return True

    def take_losses(self) -> Counter[int]:
        """Return the rows lost since the last call, by rank. Envelope ``next_seq`` is to report them."""
        with self._lock:
            lost, self._lost = self._lost, Counter()
            self._taken = (self._taken or Counter()) + lost
            return lost

    @property
    def unreported(self) -> bool:
        """Whether rows were lost that no envelope has reported yet."""
        with self._lock:
            return bool(self._lost)

    def remember(
        self, *, announced: bool | None = None, wall_offset_ns: int | None = None, slept_ns: int | None = None
    ) -> None:
        """Change a fact of the state and save it."""
        with self._lock:
            if announced is not None:
                self.state.announced = announced
            if wall_offset_ns is not None:
                self.state.wall_offset_ns = wall_offset_ns
            if slept_ns is not None:
                self.state.slept_ns = slept_ns
            self._save_state()

    # -- the upload thread's side

    def __len__(self) -> int:
        with self._lock:
            return len(self._waiting)

    def wait(self, timeout_s: float) -> None:
        """Wait for an envelope, at most ``timeout_s``."""
        with self._arrived:
            if not self._waiting:
                self._arrived.wait(timeout_s)

    def together(self) -> list[tuple[int, bytes]]:
        """Return the next envelopes to send, in order, as many as fit one request; empty if none waits.

        An envelope with a broken file is set aside and skipped.
        """
        with self._lock:
            envelopes: list[tuple[int, bytes]] = []
            while self._waiting and not envelopes:
                for entry in self._of_one_request():
                    payload = self._read(entry)
                    if payload is not None:
                        envelopes.append((entry.seq, payload))
                        continue
                    if not envelopes:  # a broken file behind others is set aside when it is the oldest
                        read = _read_between(self.state.cursors, entry.covered.cursors)
                        self._lost[-1] += max(1, read + len(self.state.held) - len(entry.covered.held))
                        self._settle(entry)
                    break
            if envelopes:
                self._maybe_sent = max(self._maybe_sent, envelopes[-1][0])
            return envelopes

    def settle(self, seq: int) -> None:
        """Remove this envelope and all before it: the server has stored them."""
        with self._lock:
            while self._waiting and next(iter(self._waiting)) <= seq:
                self._settle(next(iter(self._waiting.values())))

    def reject(self, seq: int, payload: bytes) -> None:
        """Give up an envelope that the server rejects: keep its file, and count its rows as lost."""
        with self._lock:
            entry = self._waiting.get(seq)
            if entry is None:
                return
            self._lost.update(count_rows(payload))
            set_aside(entry.path, ".rejected")
            for old in sorted(entry.path.parent.glob("*.rejected*"))[:-MAX_REJECTED]:
                old.unlink(missing_ok=True)
            self._settle(entry)

    def close(self) -> None:
        """Remove state and folder if nothing waits; else they stay for a later streamer."""
        with self._lock:
            if not self._waiting:
                self._files.remove()

    # -- called with the lock held

    def _of_one_request(self) -> list[_Waiting]:
        """Return the oldest envelope and those to send with it, at most an eighth of a small outbox.

        Envelopes that may have been sent cannot be dropped, so most must stay out of a request.
        """
        entries: list[_Waiting] = []
        room = min(TOGETHER_BYTES, self._max_bytes // 8)
        for entry in islice(self._waiting.values(), MAX_TOGETHER):
            room -= entry.size
            if entries and room < 0:
                break
            entries.append(entry)
        return entries

    def _read(self, entry: _Waiting) -> bytes | None:
        try:
            whole = unpack_file(entry.path.read_bytes())
        except OSError as error:
            log.warning("%s cannot be read (%s); it is passed over", entry.path, error)
            return None
        if whole is None:
            log.warning("%s is damaged; set aside as .corrupt", entry.path)
            set_aside(entry.path)
            return None
        return whole[1]

    def _drop_oldest(self) -> bool:
        """Drop the oldest envelope that may be dropped; return False if there is none."""
        entry = next((w for w in self._waiting.values() if w.seq > self._maybe_sent), None)
        if entry is None:
            return False
        payload = self._read(entry)
        lost = Counter({-1: 1}) if payload is None else count_rows(payload)
        self._lost.update(lost)
        if time.monotonic() - self._drop_said_at > SAY_AGAIN_S:
            self._drop_said_at = time.monotonic()
            log.warning(
                "outbox is full (%d bytes): dropped envelope %d with %d rows; further ones are counted",
                self._bytes,
                entry.seq,
                lost.total(),
            )
        self._settle(entry)
        return True

    def _settle(self, entry: _Waiting) -> None:
        """Remove an envelope. Older ones that may have been sent stay."""
        oldest = next(iter(self._waiting))
        del self._waiting[entry.seq]
        self._bytes -= entry.size
        if entry.seq == oldest:
            self.state.settled_seq = entry.seq
            self.state.cursors, self.state.held = entry.covered.cursors, entry.covered.held
        self._save_state()
        self._files.discard(entry.path)

    def _save_state(self) -> None:
        reported_by = self._next_seq if self._taken is None else self._next_seq + 1
        losses = {reported_by: self._lost, **({} if self._taken is None else {self._next_seq: self._taken})}
        self.state.losses = {
            str(seq): {str(rank): count for rank, count in lost.items()}
            for seq, lost in losses.items()
            if lost
        }
        self._files.save_state(self.state)

    def _recover(self, fresh: StreamState, current_boot: str | None) -> StreamState:
        state = self._files.load_state()
        cursors = dict(state.cursors) if state is not None else {}
        held = len(state.held) if state is not None else 0
        damaged = False
        for path in self._files.envelopes():
            try:
                whole = unpack_file(path.read_bytes()) if path.stem.isdecimal() else None
            except OSError as error:
                log.warning("%s cannot be read (%s); left where it is", path, error)
                continue
            if path.stem.isdecimal():
                self._highest_seen = max(self._highest_seen, int(path.stem))
            if whole is None:
                log.warning("%s is damaged; set aside as .corrupt", path)
                set_aside(path)
                damaged = True
                continue
            (covered, payload), seq = whole, int(path.stem)
            if state is None:
                fresh.stream, fresh.wall_offset_ns = covered.stream, covered.wall_offset_ns
                state = fresh
            if seq <= state.settled_seq:
                self._files.discard(path)  # stored, but its streamer died before removing it
                continue
            # the damaged envelope held the records between the cursors of its neighbours
            if damaged:
                read = held + _read_between(cursors, covered.cursors)
                self._lost[-1] += max(1, read - count_ring_rows(payload) - len(covered.held))
                damaged = False
            cursors, held = covered.cursors, len(covered.held)
            size = path.stat().st_size
            self._waiting[seq] = _Waiting(seq, size, covered, path)
            self._bytes += size
        state = state or fresh
        for number, lost in state.losses.items():
            if int(number) > max(state.settled_seq, self._highest_seen):  # not reported by any envelope
                self._lost.update({int(rank): count for rank, count in lost.items()})
        if state.boot_id != current_boot:  # the host was restarted: its monotonic clock began again
            state.boot_id, state.wall_offset_ns = fresh.boot_id, fresh.wall_offset_ns
            state.slept_ns = fresh.slept_ns
        return state


def _read_between(before: dict[str, int], after: dict[str, int]) -> int:
    """Count the records that were read from the rings between two sets of cursors."""
    return sum(max(0, cursor - before.get(ring, 0)) for ring, cursor in after.items())


class Covered(msgspec.Struct, frozen=True):
    """The header of an envelope's file. It lets a streamer continue even without the state file."""

    stream: str
    wall_offset_ns: int
    cursors: dict[str, int]
    held: list[tuple[int, ...]] = []


def pack_file(covered: Covered, payload: bytes) -> bytes:
    """The content of an envelope's file: what it covers, the payload, and a checksum over both."""
    header = msgspec.json.encode(covered)
    crc = zlib.crc32(payload, zlib.crc32(header))
    return _HEAD.pack(_MAGIC, len(header), len(payload), crc) + header + payload


def unpack_file(data: bytes) -> tuple[Covered, bytes] | None:
    """Read the content of an envelope's file; return None if it is incomplete or damaged."""
    if len(data) < _HEAD.size:
        return None
    magic, header_size, payload_size, crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEAD.size + header_size + payload_size:
        return None
    header, payload = data[_HEAD.size : _HEAD.size + header_size], data[_HEAD.size + header_size :]
    if zlib.crc32(payload, zlib.crc32(header)) != crc:
        return None
    try:
        return decode_json(header, Covered), payload
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        return None


def count_rows(payload: bytes) -> Counter[int]:
    """Count an envelope's rows by rank, plus the losses that it would have reported."""
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
    """Count the rows of an envelope that came from rings."""
    try:
        tables = decode(payload).tables
    except WireError:
        return 0
    return sum(row_count(tables[name]) for name in KIND_TABLE.values() if name in tables)
