"""The timers of a process that reads samples: they interrupt it, or end it, when one sample takes too long.

There are three POSIX timers on three free real-time signals, so ``SIGALRM`` stays the user's. The first
signal has a handler in Python, which raises an error at the sample's current line. The second has
``faulthandler``'s handler, which needs no interpreter: it writes the stack, then the signal ends the process.
The third has no handler, so the kernel ends a process that is stuck inside the kernel.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import struct
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from loaderwatch.agent.frames import is_ours
from loaderwatch.agent.hot import guard_last_stack
from loaderwatch.agent.source import is_script
from loaderwatch.core.kept_files import KeptFile, map_file

GRACE_S: Final = 5.0
"""How long interrupted code may take to give up before its process is ended."""
RENEW_NS: Final = int(GRACE_S * 0.4 * 1e9)
"""A timer serves samples that begin up to this much after it was set, so most samples cost no system call.

``GRACE_S`` must not be a multiple of it. Else the stack would be written just as the code is interrupted once
more: it would show the line that caught the interruption, not the sample's line.
"""
SOON_NS: Final = 10_000_000
MOST_S: Final = 1e9  # thirty years; a timer cannot hold every float
OWN_CODE: Final = "own-code"
"""A place in the dataset's own code without a line. The message ``place-of-sample`` has words for it."""
NOTE: Final = struct.Struct("<2q")  # index, when its reading began (monotonic)
_AROUND: Final = (__file__, str(Path(__file__).with_name("sample_limit.py")))
"""Our files that run right before and after a sample, outside the code that catches an interruption."""
_CLOCK_MONOTONIC: Final = 1
_SIGEV_THREAD_ID: Final = 4


class Overrun(BaseException):
    """The timer's error in the user's code. ``except Exception`` in a retry loop does not catch it."""


class Signals(NamedTuple):
    """The three real-time signals, in the order in which the timers send them."""

    interrupt: int
    dump: int
    end: int


class Line(NamedTuple):
    """One line of a stack."""

    file: str
    number: int
    function: str


class _Spec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class _Event(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signal", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("thread", ctypes.c_int),
        ("rest", ctypes.c_byte * 44),
    )


def can_be_timed() -> bool:
    """Whether this system has such timers, as Linux does."""
    return sys.platform == "linux" and _library() is not None


def _library() -> Any:
    for name in (None, "librt.so.1"):  # a library of its own before glibc 2.34
        try:
            library = ctypes.CDLL(name, use_errno=True)
            library.timer_create, library.timer_settime  # noqa: B018 - raises where they are missing
        except (OSError, AttributeError):
            continue
        return library
    return None


class _Timer:
    """One POSIX timer that sends a signal to the calling thread.

    Raises:
        OSError: the kernel gives no timer.
    """

    def __init__(self, library: Any, number: int) -> None:
        self._settime = library.timer_settime
        self._id = ctypes.c_void_p()
        event = _Event(signal=number, notify=_SIGEV_THREAD_ID, thread=threading.get_native_id())
        if library.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._id)):
            code = ctypes.get_errno()
            raise OSError(code, f"timer_create: {os.strerror(code)}")
        self._spec = _Spec()
        self._at = ctypes.byref(self._spec)

    def set(self, in_ns: int, again_ns: int = 0) -> None:
        """Send the signal in ``in_ns`` (0: stop the timer), then every ``again_ns`` (0: only once)."""
        spec = self._spec
        spec.value_s, spec.value_ns = divmod(in_ns, 1_000_000_000)
        spec.interval_s, spec.interval_ns = divmod(again_ns, 1_000_000_000)
        self._settime(self._id, 0, self._at, None)


class Deadline:
    """Limits the time of each sample in this process. It is created and used on the main thread.

    Args:
        signals: free real-time signals.
        note: the file for the current sample and, when the process is ended, its stack. Without a file, as in
            a training process, code that does not return to Python is not ended.

    Raises:
        OSError: the kernel gives no timers, or the file cannot be written.
        ValueError: this is not the main thread.
    """

    def __init__(self, signals: Signals, note: Path | None = None) -> None:
        self.stood = ""  # where the newest overdue sample was interrupted
        self._since_ns = self._fired_ns = self._limit_ns = self._renew_ns = 0
        self._thread = threading.get_ident()
        self.pid = os.getpid()
        self._note: Any = bytearray(NOTE.size)
        library = _library()
        signal.signal(signals.interrupt, self._interrupt)
        self._interrupts = _Timer(library, signals.interrupt)
        self._ends: list[_Timer] = []
        if note is not None:
            self._note = _watch_from_outside(note, signals.dump)
            self._ends = [_Timer(library, signals.dump), _Timer(library, signals.end)]

    @property
    def is_here(self) -> bool:
        """Whether the calling thread can be interrupted and is not already reading another sample."""
        return not self._since_ns and threading.get_ident() == self._thread and os.getpid() == self.pid

    @property
    def is_elsewhere(self) -> bool:
        """Whether the caller is another thread of this process, which no signal handler interrupts."""
        return threading.get_ident() != self._thread and os.getpid() == self.pid

    @property
    def has_fired(self) -> bool:
        """Whether the current sample was interrupted."""
        return self._since_ns != 0 and self._fired_ns == self._since_ns

    def begin(self, index: int, limit_ns: int) -> None:
        """Note that the reading of a sample begins, which may take ``limit_ns``."""
        now = time.monotonic_ns()
        if now > self._renew_ns or limit_ns != self._limit_ns:
            self._limit_ns = limit_ns
            self._arm(limit_ns, now)
        NOTE.pack_into(self._note, 0, index, now)
        self._since_ns = now

    def end(self) -> int:
        """Note that the reading of the sample ended; return when it began."""
        since, self._since_ns = self._since_ns, 0
        return since

    def rest(self) -> None:
        """Stop the timers until the next sample."""
        self._since_ns = 0
        if self._renew_ns:
            self._renew_ns = 0
            for timer in (self._interrupts, *self._ends):
                timer.set(0)

    def _arm(self, rest_ns: int, base_ns: int) -> None:
        grace_ns = int(GRACE_S * 1e9)
        self._interrupts.set(rest_ns, RENEW_NS)  # again if a ``finally`` or destructor swallows the first
        for later, timer in enumerate(self._ends):
            timer.set(rest_ns + grace_ns + later * 1_000_000_000)
        self._renew_ns = base_ns + RENEW_NS

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        since = self._since_ns
        if not since:
            return
        rest_ns = since + self._limit_ns - time.monotonic_ns()
        if rest_ns <= 0 and frame is not None and frame.f_code.co_filename in _AROUND:
            rest_ns = SOON_NS
        if rest_ns > 0:  # the sample began after the timers were set, or is just beginning or ending
            self._arm(rest_ns, since)
            return
        self._fired_ns, self.stood = since, _where(frame)
        raise Overrun


def _where(frame: FrameType | None) -> str:
    lines: list[Line] = []
    while frame is not None and not is_ours(frame.f_code):
        lines.append(Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
        frame = frame.f_back
    return standing(lines)


def standing(lines: list[Line]) -> str:
    """Return the place of a stack (innermost line first): the user's line, and the library's line in it.

    The place is ``OWN_CODE`` where there is no line in Python.
    """
    if not lines:
        return OWN_CODE
    inner = lines[0]
    own = next((line for line in lines if is_script(line.file)), inner)
    text = f"{own.file}:{own.number} in {own.function}"
    return (
        text if own is inner else f"{text}, inside {Path(inner.file).name}:{inner.number} in {inner.function}"
    )


def _watch_from_outside(note: Path, number: int) -> Any:
    """Map the start of the file; ``faulthandler`` writes the stack behind it before the process ends."""
    signal.signal(number, signal.SIG_DFL)
    file = KeptFile(note, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.write(file.fd, bytes(NOTE.size))
    faulthandler.register(number, file=file.fd, all_threads=False, chain=True)
    if guard_last_stack is not None:
        guard_last_stack(number, file.fd)
    return map_file(file.fd, NOTE.size)
