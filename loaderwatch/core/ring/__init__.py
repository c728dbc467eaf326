"""The shared-memory ring: one file per writing process, one writer, any number of readers, no locks.

Layout: a 4096-byte header, then ``capacity`` slots of ``SLOT_FIELDS`` int64. Record number ``n`` (from 1) lies in slot
``(n - 1) % capacity`` and carries ``n`` in its first and last field, so a reader detects a record that is being
written, was overrun, or was cut short by SIGKILL. The header's cursor is advanced after the slot is complete.

The header also holds the *open span*: what the writer is doing now and since when. It is what makes a wait visible before
it ends (``core/ring/span.py``).

The file is fully allocated when it is created: a sparse file on a full tmpfs would kill the writer with SIGBUS. It gets its
name when it is whole, and is mapped after that: on Windows a file that is open or mapped cannot be renamed.
"""

from __future__ import annotations

import itertools
import mmap
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from loaderwatch.core.errors import RingError
from loaderwatch.core.files import opener
from loaderwatch.core.kept_files import map_file
from loaderwatch.core.records import RECORD_FIELDS, SLOT_FIELDS, UNKNOWN, RecordKind
from loaderwatch.core.ring.span import (
    CURSOR_WORD,
    SAMPLE_AT,
    WORDS_AT,
    OpenSpan,
    pack_sample,
    read_span,
    words_of,
    write_span,
)

MAGIC: Final = b"LWRING\x00\x02"
HEADER_BYTES: Final = 4096
SLOT_BYTES: Final = SLOT_FIELDS * 8
MAIN_CAPACITY: Final = 8192
WORKER_CAPACITY: Final = 512

_SLOT: Final = struct.Struct(f"<{SLOT_FIELDS}q")
_STATIC: Final = struct.Struct("<8s9q")
_STATUS: Final = struct.Struct("<4q")
_STATUS_AT: Final = 512
_CURSOR: Final = struct.Struct("<q")
pack_slot: Final = _SLOT.pack_into
SHORT_STEP: Final = int(RecordKind.STEP) | 0x100
"""The kind of a STEP record that leaves out what nobody measured: it ends with ``step_ns``, the reader adds the rest."""
_STEP_FIELDS: Final = RECORD_FIELDS[RecordKind.STEP]
_SHORT_PAYLOAD: Final = _STEP_FIELDS.index("step_ns") + 1
_NOT_IN_SHORT: Final = {"nested_ns": 0, "off_main_thread": 0}  # what else there is, nobody measured
_STEP_REST: Final = tuple(_NOT_IN_SHORT.get(field, UNKNOWN) for field in _STEP_FIELDS[_SHORT_PAYLOAD:])
pack_short_step: Final = struct.Struct(f"<{_SHORT_PAYLOAD + 3}q").pack_into
_PAYLOAD: Final = SLOT_FIELDS - 3
_PAYLOAD_OF: Final = {kind: len(fields) for kind, fields in RECORD_FIELDS.items()}
_PADDING: Final[tuple[tuple[int, ...], ...]] = tuple((0,) * (_PAYLOAD - n) for n in range(_PAYLOAD + 1))


@dataclass(frozen=True, slots=True)
class RingIdentity:
    """Who writes a ring. ``worker`` is -1 and ``parent_pid`` the own pid for a training process."""

    pid: int
    parent_pid: int
    loader: int
    worker: int
    created_ns: int  # monotonic


@dataclass(frozen=True, slots=True)
class RingStatus:
    """Slowly changing facts of a writer."""

    finished: bool  # it said goodbye; a dead writer without it crashed
    stack_signal: int  # the signal faulthandler answers to, 0 if none
    faults: int  # faults of ours that the guard swallowed
    tripped: bool  # the guard switched the hooks off


Memory = mmap.mmap | bytearray
"""The memory that a ring is written to: the mapped file, or in a forked child a buffer that nobody reads."""


def _allocate(file: IO[bytes], size: int) -> None:
    """Extend a file to its full size and claim the space for it."""
    if hasattr(os, "posix_fallocate"):
        file.flush()
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.write(bytes(size - file.tell()))


class RingWriter:
    """Creates a ring and writes it. A process has one writer, which its threads share under the GIL.

    ``memory``, ``words``, ``capacity`` and ``numbers`` are public for the agent's hot path: it writes records itself, since
    calling ``append`` would cost more than the writing, and it stores single words of the open span.

    Raises:
        OSError: the file cannot be created or the space for it is not there.
    """

    def __init__(self, path: Path, identity: RingIdentity, capacity: int) -> None:
        self.path = path
        self.capacity = capacity
        size = HEADER_BYTES + capacity * SLOT_BYTES
        scratch = path.with_name(path.name + ".new")
        header = _STATIC.pack(
            MAGIC,
            SLOT_FIELDS,
            capacity,
            identity.pid,
            identity.parent_pid,
            identity.loader,
            identity.worker,
            identity.created_ns,
            0,
            0,
        )
        file = open(scratch, "xb", opener=opener)  # noqa: SIM115 - what failed here is not ours to remove
        made = scratch
        try:
            with file:
                file.write(header)
                _allocate(file, size)
            scratch.replace(path)  # readers never see a ring without its header
            made = path
            with path.open("r+b") as whole:
                self.memory: Memory = map_file(whole.fileno(), size)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        self.numbers = itertools.count(
            1
        )  # next() is atomic under the GIL: a loader may be iterated in a thread
        self._versions = itertools.count(1)
        self.words = words_of(self.memory)

    def append(self, kind: RecordKind, **fields: int) -> None:
        """Write one record, with a value for each of ``RECORD_FIELDS[kind]``.

        Raises:
            KeyError: a field of the record was not given.
            TypeError: a field was given that the record does not have.
        """
        names = RECORD_FIELDS[kind]
        values = [fields[name] for name in names]
        if len(fields) != len(names):
            strangers = ", ".join(sorted(fields.keys() - set(names)))
            raise TypeError(f"a record of the kind {kind.name} has no field {strangers}")
        number = next(self.numbers)
        _SLOT.pack_into(
            self.memory,
            HEADER_BYTES + (number - 1) % self.capacity * SLOT_BYTES,
            number,
            kind,
            *values,
            *_PADDING[len(values)],
            number,
        )
        self.words[CURSOR_WORD] = number

    def set_sample(self, sample_index: int, sample_since_ns: int) -> None:
        """Publish the sample that is being read inside the open span.

        The two numbers are written without a new version number. For a few nanoseconds their place holds zeros, so a
        reader treats a sample that began at 0 as not known.
        """
        pack_sample(self.memory, SAMPLE_AT, sample_index, sample_since_ns)

    def set_span(
        self,
        phase: int,
        since_ns: int,
        loader: int = UNKNOWN,
        epoch: int = UNKNOWN,
        batch: int = UNKNOWN,
        step: int = UNKNOWN,
        awaited_worker: int = UNKNOWN,
        sample_index: int = UNKNOWN,
        sample_since_ns: int = UNKNOWN,
        batches: int = 0,
        steps: int = 0,
        samples: int = 0,
        phase_name: int = UNKNOWN,
        follows: int = 0,
    ) -> None:
        """Publish what this process is doing now, with no other phase open. ``follows`` is that of ``write_span``."""
        write_span(
            self.memory,
            next(self._versions),
            follows,
            phase,
            since_ns,
            loader,
            epoch,
            batch,
            step,
            awaited_worker,
            sample_index,
            sample_since_ns,
            batches,
            steps,
            samples,
            phase_name,
        )

    def set_status(self, status: RingStatus) -> None:
        """Publish the slowly changing facts."""
        _STATUS.pack_into(
            self.memory, _STATUS_AT, status.finished, status.stack_signal, status.faults, status.tripped
        )

    def mute(self) -> None:
        """Stop writing to the ring, in a forked child: it holds the same memory, and a ring has one writer."""
        self.memory = bytearray(HEADER_BYTES + self.capacity * SLOT_BYTES)
        self.words = words_of(self.memory)

    def close(self) -> None:
        """Unmap the file, which stays for the reader."""
        if isinstance(self.memory, mmap.mmap):
            self.words.release()
            self.memory.close()


@dataclass(frozen=True, slots=True)
class Drained:
    """The records that one read of a ring gave."""

    records: dict[RecordKind, list[tuple[int, ...]]]  # fields in the order of RECORD_FIELDS
    cursor: int  # number of the last record read or passed over
    lost: int  # records overwritten before they were read, or torn


class RingReader:
    """Reads a ring that another process may be writing, or that its writer left behind.

    Raises:
        RingError: the file is not a ring of this version.
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            head = file.read(_STATIC.size)
            if len(head) < _STATIC.size or not head.startswith(MAGIC):
                raise RingError(f"{path} is not a loaderwatch ring of this version; it was set aside unread")
            _, slot_fields, capacity, pid, parent, loader, worker, created, _, _ = _STATIC.unpack(head)
            expected = HEADER_BYTES + capacity * SLOT_BYTES
            actual = os.fstat(file.fileno()).st_size
            if slot_fields != SLOT_FIELDS or capacity <= 0 or actual != expected:
                raise RingError(
                    f"{path} has {actual} bytes and slots of {slot_fields} fields; expected {expected} bytes and"
                    f" {SLOT_FIELDS} fields; it was set aside unread"
                )
            self._map = mmap.mmap(file.fileno(), expected, access=mmap.ACCESS_READ)
        self._capacity = int(capacity)
        self.identity = RingIdentity(pid, parent, loader, worker, created)

    def drain(self, cursor: int, *, final: bool = False, limit: int = 100_000) -> Drained:
        """Read the records after number ``cursor``, at most ``limit`` of them.

        A record that is still being written ends the read; with ``final`` (the writer is gone) it counts as lost.
        Records whose slots the writer reused during the read count as lost, too: ``pack_into`` clears a slot in no fixed
        order, so both sequence numbers may still be there when the middle is not.
        """
        taken: list[tuple[int, RecordKind, tuple[int, ...]]] = []
        lost = 0
        head = self._cursor()
        first = cursor + 1
        if head - cursor > self._capacity:
            lost += head - self._capacity - cursor
            first = head - self._capacity + 1
        number = first
        last = min(head, first + limit - 1)
        while number <= last:
            fields = _SLOT.unpack_from(self._map, HEADER_BYTES + (number - 1) % self._capacity * SLOT_BYTES)
            if fields[0] == number == fields[_SHORT_PAYLOAD + 2] and fields[1] == SHORT_STEP:
                step = (*fields[2 : 2 + _SHORT_PAYLOAD], *_STEP_REST)
                taken.append((number, RecordKind.STEP, step))
            elif fields[0] == number == fields[-1] and fields[1] != SHORT_STEP:
                try:
                    kind = RecordKind(fields[1])
                    payload = _PAYLOAD_OF[kind]
                except (ValueError, KeyError):
                    lost += 1
                else:
                    taken.append((number, kind, fields[2 : 2 + payload]))
            elif fields[0] > number or fields[-1] > number or final:
                lost += 1  # overrun while we read, or torn by a crash
            else:
                break
            number += 1
        gone = self._cursor() - self._capacity + 1  # the writer may be filling this slot now
        records: dict[RecordKind, list[tuple[int, ...]]] = {}
        for at, kind, row in taken:
            if at > gone:
                records.setdefault(kind, []).append(row)
            else:
                lost += 1
        return Drained(records, number - 1, lost)

    def pending(self, cursor: int) -> int:
        """Return how many records after number ``cursor`` the writer has published."""
        return max(0, self._cursor() - cursor)

    def span(self) -> OpenSpan | None:
        """Return what the writer is doing now; None if it published nothing yet or was killed while it did."""
        return read_span(self._map)

    def status(self) -> RingStatus:
        """The slowly changing facts of the writer."""
        finished, stack_signal, faults, tripped = _STATUS.unpack_from(self._map, _STATUS_AT)
        return RingStatus(bool(finished), stack_signal, faults, bool(tripped))

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()

    def _cursor(self) -> int:
        cursor: int = _CURSOR.unpack_from(self._map, WORDS_AT)[0]
        return cursor
