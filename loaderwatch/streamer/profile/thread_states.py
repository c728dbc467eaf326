"""What a thread does at this moment, from /proc: it runs, lacks a CPU, or waits for something.

The kernel says that a thread waits in ``poll`` or ``read``, but not for what. The descriptor that it waits
for does: a pipe, a socket or a file. Reading it needs the permission of a debugger, as reading a stack does.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final

from loaderwatch.core.records import ThreadState
from loaderwatch.core.system import (
    CHILD_FUNCTIONS,
    LOCK_FUNCTIONS,
    PIPE_FUNCTIONS,
    PROC,
    SOCKET_FUNCTIONS,
    TIMER_FUNCTIONS,
    waits_in,
)
from loaderwatch.streamer.profile.remote_stack import MemoryUnreadable

_BY_FUNCTION: Final = (
    (LOCK_FUNCTIONS, ThreadState.LOCK),
    (TIMER_FUNCTIONS, ThreadState.TIMER),
    (CHILD_FUNCTIONS, ThreadState.CHILD),
    (PIPE_FUNCTIONS, ThreadState.PIPE),
    (SOCKET_FUNCTIONS, ThreadState.NETWORK),
)
_SEVERAL: Final = ("poll", "select")
"""Functions that wait for the first of several descriptors."""
_BY_DESCRIPTOR: Final = (("pipe:", ThreadState.PIPE), ("socket:", ThreadState.NETWORK))
_POLL_CALLS: Final = frozenset({b"7", b"73", b"271"})
"""``poll`` and ``ppoll``: 7 and 271 on x86-64, 73 on AArch64 (ppoll)."""
_DESCRIPTOR: Final = struct.Struct("<i")

Peek = Callable[[int, int], bytes]
"""Reads bytes at an address of the thread's process."""


class ThreadStates:
    """Reads the states of threads of one process, and remembers their times of waiting for a CPU."""

    def __init__(self, pid: int, chance: random.Random, proc_root: Path = PROC) -> None:
        self._folder = f"{proc_root}/{pid}"
        self._chance = chance
        self._times: dict[int, tuple[int, int]] = {}  # by thread: CPU time and time without a CPU, in ns
        self._scheduled: dict[int, bytes] = {}  # by thread: its schedstat at the last look

    def state(self, thread: int, peek: Peek) -> ThreadState | None:
        """Return what a thread does; None if it has ended.

        Of a thread that is ready to run, the kernel does not say whether it has a CPU. So it counts as
        runnable with the probability that it lacked a CPU since the last look: on average this is right.

        Args:
            thread: the kernel's id of the thread.
            peek: reads the memory of its process.
        """
        folder = f"{self._folder}/task/{thread}"
        stat = _read(f"{folder}/stat")
        letter = stat.rpartition(b")")[2][1:2]
        self._scheduled[thread] = _read(f"{folder}/schedstat")
        lacked_ratio = self._lacked_ratio(thread, self._scheduled[thread])
        if letter == b"R":
            lacks = lacked_ratio > 0 and self._chance.random() < lacked_ratio
            return ThreadState.RUNNABLE if lacks else ThreadState.RUNNING
        if letter in (b"", b"Z", b"X"):
            return None
        function = _read(f"{folder}/wchan").decode("ascii", "replace")
        for functions, state in _BY_FUNCTION:
            if waits_in(functions, function):
                return state
        if letter == b"D":
            return ThreadState.DISK
        if waits_in(_SEVERAL, function):
            return self._awaited(_read(f"{folder}/syscall"), peek)
        return ThreadState.WAITING

    def has_run(self, thread: int) -> bool:
        """Whether a thread has run since the last look at its state. A waiting thread is then elsewhere."""
        return _read(f"{self._folder}/task/{thread}/schedstat") != self._scheduled.get(thread)

    def _lacked_ratio(self, thread: int, text: bytes) -> float:
        fields = text.split()
        if len(fields) < 2:
            return 0.0
        ran_ns, lacked_ns = int(fields[0]), int(fields[1])
        before = self._times.get(thread, (ran_ns, lacked_ns))
        self._times[thread] = ran_ns, lacked_ns
        ran_ns, lacked_ns = ran_ns - before[0], lacked_ns - before[1]
        return lacked_ns / (ran_ns + lacked_ns) if ran_ns + lacked_ns > 0 else 0.0

    def _awaited(self, call: bytes, peek: Peek) -> ThreadState:
        """Return what a thread waits for in ``poll``, by its first descriptor."""
        fields = call.split()  # the number of the call, then its arguments: an array and its length
        if len(fields) < 3 or fields[0] not in _POLL_CALLS or not int(fields[2], 16):
            return ThreadState.WAITING
        try:
            descriptor = _DESCRIPTOR.unpack(peek(int(fields[1], 16), _DESCRIPTOR.size))[0]
            target = os.readlink(f"{self._folder}/fd/{descriptor}")  # noqa: PTH115 - hot
        except (OSError, MemoryUnreadable):
            return ThreadState.WAITING
        return next((state for mark, state in _BY_DESCRIPTOR if target.startswith(mark)), ThreadState.WAITING)


def _read(path: str) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return b""
    try:
        return os.read(file, 4096)
    except OSError:  # the thread ended
        return b""
    finally:
        os.close(file)
