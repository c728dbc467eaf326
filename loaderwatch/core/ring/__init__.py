"""The shared-memory ring: one file per writing process, one writer, any number of readers, no locks.

Layout: a 4096-byte header, then ``capacity`` slots of ``SLOT_FIELDS`` int64. Record number ``n`` (from 1)
lies in slot ``(n - 1) % capacity`` and has ``n`` in its first and last field. So a reader detects a record
that is being written, was overwritten, or was cut short by SIGKILL. The header's cursor advances last.

The header also holds the *open span*: the writer's current activity and its begin. It makes a wait visible
before the wait ends (``core/ring/span.py``).

The file is fully allocated when it is created: a sparse file on a full tmpfs would kill the writer with
SIGBUS. It is renamed when complete, then mapped: Windows renames no open or mapped file.
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
_THREAD: Final = struct.Struct("<5q")
_THREAD_AT: Final = 1024
_CURSOR: Final = struct.Struct("<q")
pack_slot: Final = _SLOT.pack_into
SHORT_STEP: Final = int(RecordKind.STEP) | 0x100
"""The kind of a STEP record without unmeasured fields: it ends with ``step_ns``; the reader adds the rest."""
_STEP_FIELDS: Final = RECORD_FIELDS[RecordKind.STEP]
_SHORT_PAYLOAD: Final = _STEP_FIELDS.index("step_ns") + 1
_NOT_IN_SHORT: Final = {"nested_ns": 0, "off_main_thread": 0}  # the other fields are UNKNOWN
_STEP_REST: Final = tuple(_NOT_IN_SHORT.get(field, UNKNOWN) for field in _STEP_FIELDS[_SHORT_PAYLOAD:])
pack_short_step: Final = struct.Struct(f"<{_SHORT_PAYLOAD + 3}q").pack_into
_PAYLOAD: Final = SLOT_FIELDS - 3
_PAYLOAD_OF: Final = {kind: len(fields) for kind, fields in RECORD_FIELDS.items()}
_PADDING: Final[tuple[tuple[int, ...], ...]] = tuple((0,) * (_PAYLOAD - n) for n in range(_PAYLOAD + 1))


@dataclass(frozen=True, slots=True)
class RingIdentity:
    """The writer of a ring. In a training process, ``worker`` is -1 and ``parent_pid`` its own pid."""

    pid: int
    parent_pid: int
    loader: int
    worker: int
    created_ns: int  # monotonic


@dataclass(frozen=True, slots=True)
class RingStatus:
    """Facts of a writer that change slowly."""

    finished: bool  # it ended properly; a dead writer without this crashed
    stack_signal: int  # the signal on which faulthandler writes stacks, 0 if none
    faults: int  # faults of ours that the guard swallowed
    tripped: bool  # the guard switched the hooks off


@dataclass(frozen=True, slots=True)
class PythonThread:
    """Where another process finds the stack of the writer's thread in memory."""

    version: tuple[int, int]  # of the writer's Python
    native_id: int  # the kernel's id of the thread
    state: int  # the address of its PyThreadState
    code_type: int  # the address of types.CodeType


Memory = mmap.mmap | bytearray
"""The memory of a ring's writer: the mapped file, or in a forked child a buffer that nobody reads."""


def _allocate(file: IO[bytes], size: int) -> None:
    """Extend a file to its full size and reserve the disk space for it."""
    if hasattr(os, "posix_fallocate"):
        file.flush()
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.write(bytes(size - file.tell()))


class RingWriter:
    """Creates a ring and writes to it. A process has one writer, which its threads share under the GIL.

    ``memory``, ``words``, ``capacity`` and ``numbers`` are public for the agent's hot path. It writes records
    itself, as a call of ``append`` costs more than the writing, and words of the open span.

    Raises:
        OSError: the file cannot be created, or its disk space is missing.
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
        file = open(scratch, "xb", opener=opener)  # noqa: SIM115 - if this fails, the file is not ours
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
        self.numbers = itertools.count(1)  # next() is atomic under the GIL: a thread may iterate a loader
        self._versions = itertools.count(1)
        self.words = words_of(self.memory)

    def append(self, kind: RecordKind, **fields: int) -> None:
        """Write one record, with a value for each of ``RECORD_FIELDS[kind]``.

        Raises:
            KeyError: a field of the record was not given.
            TypeError: a given field is not in the record.
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

        The two numbers are written without a new version number. For a few nanoseconds, their place holds
        zeros. So a reader treats a sample that began at 0 as not known.
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
        """Publish this process's current activity, with no other phase open; see ``write_span``."""
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
        """Publish the facts that change slowly."""
        _STATUS.pack_into(
            self.memory, _STATUS_AT, status.finished, status.stack_signal, status.faults, status.tripped
        )

    def set_thread(self, thread: PythonThread) -> None:
        """Publish the thread whose stack may be read from outside."""
        _THREAD.pack_into(
            self.memory, _THREAD_AT, *thread.version, thread.native_id, thread.state, thread.code_type
        )

    def mute(self) -> None:
        """Stop writing to the ring in a forked child, which shares the memory: a ring has one writer."""
        self.memory = bytearray(HEADER_BYTES + self.capacity * SLOT_BYTES)
        self.words = words_of(self.memory)

    def close(self) -> None:
        """Unmap the file, which stays for the reader."""
        if isinstance(self.memory, mmap.mmap):
            self.words.release()
            self.memory.close()


@dataclass(frozen=True, slots=True)
class Drained:
    """The records from one read of a ring."""

    records: dict[RecordKind, list[tuple[int, ...]]]  # fields in the order of RECORD_FIELDS
    cursor: int  # number of the last record that was read or skipped
    lost: int  # records that were overwritten before they were read, or torn


class RingReader:
    """Reads a ring that another process may be writing, or whose writer has ended.

    Raises:
        RingError: the file is not a ring of this version.
        OSError: the file cannot be opened.
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
                    f"{path} has {actual} bytes and slots of {slot_fields} fields; expected {expected} bytes"
                    f" and {SLOT_FIELDS} fields; it was set aside unread"
                )
            self._map = mmap.mmap(file.fileno(), expected, access=mmap.ACCESS_READ)
        self._capacity = int(capacity)
        self.identity = RingIdentity(pid, parent, loader, worker, created)

    def drain(self, cursor: int, *, final: bool = False, limit: int = 100_000) -> Drained:
        """Read the records after number ``cursor``, at most ``limit`` of them.

        A record that is still being written ends the read. With ``final`` (the writer is gone), it counts as
        lost. Records also count as lost if the writer reused their slots during the read: ``pack_into``
        clears a slot in no fixed order, so both sequence numbers may outlast the middle.
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
                lost += 1  # overwritten during the read, or torn by a crash
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
        """Return how many records the writer has published after number ``cursor``."""
        return max(0, self._cursor() - cursor)

    def span(self) -> OpenSpan | None:
        """Return the writer's current activity; None before the first one, or if it was killed meanwhile."""
        return read_span(self._map)

    def status(self) -> RingStatus:
        """The writer's facts that change slowly."""
        finished, stack_signal, faults, tripped = _STATUS.unpack_from(self._map, _STATUS_AT)
        return RingStatus(bool(finished), stack_signal, faults, bool(tripped))

    def thread(self) -> PythonThread | None:
        """Return the thread whose stack may be read from outside; None if the writer published none."""
        major, minor, native_id, state, code_type = _THREAD.unpack_from(self._map, _THREAD_AT)
        return PythonThread((major, minor), native_id, state, code_type) if state else None

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()

    def _cursor(self) -> int:
        cursor: int = _CURSOR.unpack_from(self._map, WORDS_AT)[0]
        return cursor
