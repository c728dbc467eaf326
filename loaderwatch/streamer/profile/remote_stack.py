"""Reads the Python stack of another process's thread without stopping it: ``process_vm_readv``, no signal.

The thread may run on while its memory is read. So each frame is checked: its code must be a code object that
looks the same as when its names were read. A stack that fails the check is read once more, then given up.
A frame that is being made during the read may pass: it then has the caller of an earlier call. In a loop of
the cheapest calls this is one stack in thousands. Reading until a stack stays the same would avoid these,
but would miss most stacks of code that calls functions all the time, so all shares would be wrong.
The caller needs the permission that a debugger needs (``ptrace(2)``, PTRACE_MODE_ATTACH_REALCREDS).
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from loaderwatch.core.facts import NATIVE_FILE
from loaderwatch.streamer.profile.layouts import (
    BYTES_DATA,
    LAYOUTS,
    OBJECT_TYPE,
    OWNED_BY_C,
    OWNED_BY_GENERATOR,
    TEXT_LENGTH,
    TEXT_STATE,
    Layout,
)
from loaderwatch.streamer.profile.native_calls import Location, native_call

MOST_FRAMES: Final = 128
MOST_THREADS: Final = 128
MOST_CHUNK: Final = 1 << 16
"""Bytes read at once of the memory in which CPython keeps a thread's frames; a chunk has 16 KiB or more."""
MOST_TEXT: Final = 4096
MOST_TABLE: Final = 1 << 18
_THREAD_BYTES: Final = 312
_CODE_BYTES: Final = 152
_FRAME_BYTES: Final = 104
_WORD: Final = struct.Struct("<Q")
_INT: Final = struct.Struct("<i")
_TRAMPOLINE: Final = "<interpreter trampoline>"

Place = tuple[str, int, str]
"""A line of code: file, line, function."""


class MemoryUnreadable(Exception):
    """Memory of another process cannot be read."""


class Unreadable(MemoryUnreadable):
    """The stack changed while it was read, or the memory is not what it should be."""


class NotPermitted(MemoryUnreadable):
    """The system does not let this process read the other one's memory."""


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@dataclass(slots=True)
class _Code:
    """A code object. ``shape``: the fields by which a later look recognises it."""

    shape: tuple[int, ...]
    file: str
    function: str
    first_line: int
    table: bytes
    lines: dict[int, int]  # by offset of the instruction
    calls: dict[int, str | None]  # by offset, the native function that is called


class RemoteStacks:
    """Reads stacks of one process.

    Args:
        pid: the process.
        version: the (major, minor) version of its Python.
        code_type: the address of its ``types.CodeType``.
        since_s: source files that have changed since this time, s UTC, are not read.

    Raises:
        KeyError: the version is not in the table of layouts.
        OSError: this system has no ``process_vm_readv``.
    """

    def __init__(self, pid: int, version: tuple[int, int], code_type: int, since_s: float = math.inf) -> None:
        self._layout: Layout = LAYOUTS[version]
        self._pid = pid
        self._code_type = code_type
        self._since_s = since_s
        self._codes: dict[int, _Code] = {}
        self._read_memory = _system_call()
        self._buffer = ctypes.create_string_buffer(MOST_CHUNK + _FRAME_BYTES)
        self._address = ctypes.addressof(self._buffer)
        self._here = _Piece(self._address, 0)
        self._there = (_Piece * MOST_FRAMES)()

    def stack(self, thread: int) -> Sequence[Place]:
        """Return the stack of the thread with this ``PyThreadState`` address, the innermost frame first.

        If the innermost line has called a native function, the first frame is that function's. Its file is
        ``NATIVE_FILE``, and its line the caller's.

        Raises:
            Unreadable: it changed twice during the read.
            NotPermitted
            ProcessLookupError: the process has ended.
        """
        try:
            return self._stack(thread)
        except Unreadable:
            return self._stack(thread)

    def threads(self, thread: int) -> list[int]:
        """Return the addresses of all threads' states, this one's first. Raises as ``stack``."""
        states = [thread]
        for link in (self._layout.next_thread, self._layout.previous_thread):
            at = thread
            while len(states) < MOST_THREADS and (at := self._word(at + link)):
                states.append(at)
        return states

    def bytes_at(self, address: int, size: int) -> bytes:
        """Return memory of the process. Raises as ``stack``."""
        return self._bytes(address, size)

    def native_id(self, thread: int) -> int | None:
        """Return the kernel's id of a thread; None if this Python does not keep it. Raises as ``stack``."""
        at = self._layout.native_id
        return None if at is None else self._word(thread + at)

    def _stack(self, thread: int) -> Sequence[Place]:
        layout = self._layout
        state = self._bytes(thread, _THREAD_BYTES)
        top = _word(state, layout.top)
        chunk_at, chunk = 0, b""
        if layout.data_stack is not None:
            chunk_at = _word(state, layout.data_stack)
            size = _word(state, layout.data_stack + 8) - chunk_at
            if chunk_at and 0 < size <= MOST_CHUNK:
                chunk = self._bytes(chunk_at, size)
        if layout.top_in_cframe is not None:
            top = self._word(top + layout.top_in_cframe)
        places: list[tuple[int, int]] = []  # code and instruction
        owner = 0
        while top and len(places) < MOST_FRAMES:
            if 0 <= top - chunk_at <= len(chunk) - _FRAME_BYTES:
                frame, at = chunk, top - chunk_at
            else:
                frame, at = self._bytes(top, _FRAME_BYTES), 0
            top = _word(frame, at + layout.previous)
            if layout.instructions is None:
                instruction = _INT.unpack_from(frame, at + layout.instruction)[0]
                owner = OWNED_BY_GENERATOR if _word(frame, at + layout.owner) else 0
            else:
                instruction = _word(frame, at + layout.instruction)
                owner = frame[at + layout.owner]
            if owner != OWNED_BY_C:
                places.append((_word(frame, at + layout.code), instruction))
        if not places:
            raise Unreadable("no frame")
        if owner == OWNED_BY_GENERATOR and len(places) < MOST_FRAMES:
            raise Unreadable("the generator has just been left")  # it forgets who called it
        return self._named(places)

    def _named(self, places: Sequence[tuple[int, int]]) -> list[Place]:
        stack: list[Place] = []
        shapes = self._shapes([address for address, _ in places])
        for (address, instruction), shape in zip(places, shapes, strict=True):
            code = self._codes.get(address)
            if code is None or code.shape != shape:
                code = self._codes[address] = self._code(address, shape)
            if code.function == _TRAMPOLINE:
                continue
            line = self._line(code, address, instruction)
            if not stack and (call := self._call_at(code, address, instruction)) is not None:
                stack.append((NATIVE_FILE, line, call))
            stack.append((code.file, line, code.function))
        return stack

    def _shapes(self, addresses: Sequence[int]) -> list[tuple[int, ...]]:
        """Read the fields by which code objects are recognised, all with one system call."""
        for place, address in zip(self._there, addresses, strict=False):
            place.base, place.length = address, _CODE_BYTES
        self._call(len(addresses) * _CODE_BYTES, len(addresses))
        block = self._buffer.raw
        layout = self._layout
        words = (OBJECT_TYPE, layout.filename, layout.name, layout.line_table)
        return [
            (
                *(_word(block, start + word) for word in words),
                _INT.unpack_from(block, start + layout.first_line)[0],
            )
            for start in range(0, len(addresses) * _CODE_BYTES, _CODE_BYTES)
        ]

    def _code(self, address: int, shape: tuple[int, ...]) -> _Code:
        kind, filename, name, table, first_line = shape
        if kind != self._code_type:
            raise Unreadable(f"no code object at {address:#x}")
        size = self._word(table + TEXT_LENGTH)
        if size > MOST_TABLE:
            raise Unreadable(f"a line table of {size} bytes")
        lines = self._long(table + BYTES_DATA, size)
        return _Code(shape, self._text(filename), self._text(name), first_line, lines, {}, {})

    def _line(self, code: _Code, address: int, instruction: int) -> int:
        offset = self._offset(address, instruction)
        line = code.lines.get(offset)
        if line is None:
            if self._layout.instructions is not None:
                return self._location(code, offset).line
            try:
                line = code.lines[offset] = line_in_pairs(code.table, code.first_line, offset)
            except (IndexError, ValueError) as error:  # the code object was freed while it was read
                raise Unreadable("no table of lines") from error
        return line

    def _call_at(self, code: _Code, address: int, instruction: int) -> str | None:
        """Return the native function that an instruction calls; None if it calls none or is of 3.10."""
        offset = self._offset(address, instruction)
        if self._layout.instructions is None:
            return None
        if offset not in code.calls:
            location = self._location(code, offset)
            code.calls[offset] = native_call(self._pid, code.file, location, self._since_s)
        return code.calls[offset]

    def _offset(self, address: int, instruction: int) -> int:
        """Return the byte offset of an instruction in its code."""
        start = self._layout.instructions
        return 2 * instruction if start is None else instruction - address - start

    def _location(self, code: _Code, offset: int) -> Location:
        try:
            location = location_in(code.table, code.first_line, offset)
        except IndexError as error:  # the code object was freed while it was read
            raise Unreadable("no table of locations") from error
        code.lines[offset] = location.line
        return location

    def _text(self, address: int) -> str:
        head = self._bytes(address, 40)
        length = _word(head, TEXT_LENGTH)
        flags = _INT.unpack_from(head, TEXT_STATE)[0]
        kind, compact, is_ascii = flags >> 2 & 7, flags >> 5 & 1, flags >> 6 & 1
        if not compact or kind not in (1, 2, 4) or length > MOST_TEXT:
            raise Unreadable(f"no text at {address:#x}")
        data = self._bytes(
            address + (self._layout.ascii_text if is_ascii else self._layout.wide_text), length * kind
        )
        return data.decode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind], "replace")

    def _long(self, address: int, size: int) -> bytes:
        starts = range(0, size, MOST_CHUNK)
        return b"".join(self._bytes(address + start, min(MOST_CHUNK, size - start)) for start in starts)

    def _word(self, address: int) -> int:
        return _word(self._bytes(address, 8), 0)

    def _bytes(self, address: int, size: int) -> bytes:
        if not size:
            return b""
        self._there[0].base, self._there[0].length = address, size
        self._call(size, 1)
        return ctypes.string_at(self._address, size)

    def _call(self, size: int, pieces: int) -> None:
        self._here.length = size
        count = self._read_memory(self._pid, ctypes.byref(self._here), 1, self._there, pieces, 0)
        if count == size:
            return
        error = ctypes.get_errno() if count < 0 else errno.EFAULT
        if error in (errno.EPERM, errno.EACCES, errno.ENOSYS):
            raise NotPermitted(os.strerror(error))
        if error == errno.ESRCH:
            raise ProcessLookupError(error, os.strerror(error))
        raise Unreadable(os.strerror(error))


def _system_call() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    try:
        call = library.process_vm_readv
    except AttributeError:
        raise OSError(errno.ENOSYS, "the C library has no process_vm_readv") from None
    call.restype = ctypes.c_ssize_t
    call.argtypes = (
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_ulong,
    )
    return call


def _word(data: bytes, at: int) -> int:
    word: int = _WORD.unpack_from(data, at)[0]
    return word


def location_in(table: bytes, first_line: int, offset: int) -> Location:
    """Return the location of the instruction at a byte offset, from a table of Python 3.11 and later.

    Source: Objects/locations.md of CPython. An instruction without a line has the line before it.
    """
    line, end, at = first_line, 0, 0
    location = Location(line, line, -1, -1)
    while at < len(table):
        kind, units = table[at] >> 3 & 15, (table[at] & 7) + 1
        at += 1
        last_line, column, last_column = 0, -1, -1  # ``last_line`` from ``line`` on
        if kind < 10:
            column = 8 * kind + (table[at] >> 4 & 7)
            last_column = column + (table[at] & 15)
            at += 1
        elif kind <= 12:
            line += kind - 10
            column, last_column = table[at], table[at + 1]
            at += 2
        elif kind <= 14:
            delta, at = _signed(table, at)
            line += delta
            if kind == 14:
                last_line, at = _unsigned(table, at)
                column, at = _unsigned(table, at)
                last_column, at = _unsigned(table, at)
                column, last_column = column - 1, last_column - 1
        end += 2 * units
        if kind != 15:
            location = Location(line, line + last_line, column, last_column)
        if offset < end:
            break
    return location


def _unsigned(table: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = table[at]
        at += 1
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            return value, at


def _signed(table: bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(table, at)
    return (-(value >> 1) if value & 1 else value >> 1), at


def line_in_pairs(table: bytes, first_line: int, offset: int) -> int:
    """Return the line of the instruction at a byte offset, from a table of Python 3.10.

    Source: Objects/lnotab_notes.txt of CPython. An instruction without a line has the line before it.
    """
    line, end = first_line, 0
    for size, change in zip(table[::2], table[1::2], strict=True):
        if change != 128:
            line += change - 256 if change > 128 else change
        end += size
        if offset < end:
            return line
    return line
