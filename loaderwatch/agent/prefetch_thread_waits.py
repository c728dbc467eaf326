"""Measures how long the training loop waits for a thread that reads its loader ahead (prefetching).

Such a thread passes its batches through its own queue, future or event. The loop waits there, not in
``next(loader)``. Python's ``threading``, ``queue`` and ``concurrent.futures`` all wait in
``threading.Condition.wait``, and ``asyncio`` in its selector. Both are timed while threads read loaders.

A loop that polls (``while not batches: time.sleep(0.001)``) repeats one short sleep, and no batch comes
between two sleeps. Two equal sleeps in a row also happen when a batch is a little late. Three short ones in a
row mean that the loop polls, so the third and later sleeps count as its wait.

Not every such wait is for a batch. The thread itself may wait, for example for a place in a full queue. Or it
gets batch after batch, and the loop does not wake up. ``queue.SimpleQueue`` and a bare lock wait in C, where
we cannot time them. Then the loop's waits are unknown.

If a thread ends with an uncaught error, only ``threading.excepthook`` hears of it. If the error is caught, no
hook runs. Either way the loop waits forever. But an object in the thread's local storage reports the end.
"""

from __future__ import annotations

import functools
import os
import selectors
import sys
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from loaderwatch.agent.guard import shield
from loaderwatch.core.clock import monotonic_ns

MOST_BATCHES: Final = 2
"""Most batches that a thread gets during one wait of the loop: the awaited batch and the following one."""
LONGEST_POLL_S: Final = 0.015
"""Longest sleep that counts as a poll, in s: polls are rarely longer, sleeps as a step rarely shorter."""
FIRST_POLL: Final = 3
"""In a row of equal sleeps, the number of the first sleep that counts as a poll."""
POLLS_APART_NS: Final = 2_000_000
"""Longest time between two sleeps of a loop that polls, in ns: it only checks whether a batch has come."""
SELECTORS: Final = tuple(getattr(selectors, name, None) for name in ("EpollSelector", "KqueueSelector"))
"""The default selectors of ``asyncio``. ``subprocess`` and ``multiprocessing`` use others."""


class Reader(Protocol):
    """A pass over a loader that a thread reads."""

    @property
    def waits(self) -> bool:
        """Whether the thread is inside ``next`` of this pass."""

    def loop_works(self) -> None:
        """Note that the loop works on a thread's batches; called in the loop's thread, not in each step."""

    def loop_waits(self, now: int) -> None:
        """Note that the loop begins to wait for the thread."""

    def loop_goes_on(self, now: int) -> None:
        """Note that the loop's wait has ended."""

    @property
    def note_end(self) -> Callable[[str, str | None], None]:
        """Publishes the name of the thread that read the loader and the type of the error that ended it.

        The type is "" if a thread ended before its pass and no error was seen. It keeps no pass alive.
        """


class ReadAhead:
    """The clock of the loop's waits for threads that read loaders ahead. Times are monotonic nanoseconds.

    Args:
        loop: the identifier of the training thread.
        in_next: returns whether the training thread is inside ``next`` of a loader that it reads itself.
    """

    def __init__(self, loop: int, in_next: Callable[[], bool]) -> None:
        self.loop = loop
        self._in_next = in_next
        self.knows = False  # a batch has woken the loop before, so the loop's waits are known from then on
        self.since_ns = 0  # when the loop's current wait for a batch began; 0: no wait
        self._waited_ns = 0
        self.readers: dict[int, Reader] = {}  # by thread, the newest last
        # Kept after the thread's pass. The key is no thread identifier: a later thread may get the same one.
        self._note_end: WeakKeyDictionary[threading.Thread, Callable[[str, str | None], None]] = (
            WeakKeyDictionary()
        )
        self._whole: WeakSet[threading.Thread] = WeakSet()  # threads that read their newest pass to its end
        self._blocked: set[int] = set()  # threads that wait themselves
        self._stands = False  # the loop is in a wait of any kind
        self._got = 0  # batches that the threads got during the loop's wait
        self._came = 0  # batches that the threads got in total
        self._row = 0  # equal sleeps of the loop in a row
        self._came_before_sleep = 0
        self._slept = (0.0, 0, 0)  # the loop's last sleep: seconds, its end, and ``_came`` before it

    def waited_ns(self, now: int) -> int:
        """Return how long the loop has waited for batches so far."""
        return self._waited_ns + (max(0, now - self.since_ns) if self.since_ns else 0)

    def reads(self, reader: Reader) -> bool:
        """Note that this thread asks for a batch; return whether it had not read this pass before."""
        thread = get_ident()
        known = self.readers.pop(thread, None)
        self.readers[thread] = reader
        if known is not reader:
            self._begins(threading.current_thread(), reader)
        if known is None:
            watch(self)
        self._blocked.discard(thread)
        self._look()
        return known is not reader

    def gets(self) -> None:
        """Note that a thread got a batch."""
        self._got += 1
        self._came += 1
        if self._got > MOST_BATCHES and self.since_ns:  # the loop waits for something else
            self.since_ns = 0
            if self.knows:
                self._newest().loop_goes_on(monotonic_ns())

    def _begins(self, thread: threading.Thread, reader: Reader) -> None:
        self._note_end[thread] = reader.note_end
        self._whole.discard(thread)
        if not hasattr(_storage, "end"):
            _storage.end = _End(shield(functools.partial(self._ended, thread)))

    def _ended(self, thread: threading.Thread) -> None:
        """Note that a thread that read a loader has ended."""
        note_end = self._note_end.pop(thread, None)
        if note_end is not None and thread not in self._whole:
            note_end(thread.name, "")

    def left(self, reader: Reader, *, whole: bool = False) -> None:
        """Note that a pass ended or that the loop now reads it. ``whole``: this thread read it to the end."""
        if whole:
            self._whole.add(threading.current_thread())
        for thread in [thread for thread, known in self.readers.items() if known is reader]:
            self._blocked.discard(thread)
            if len(self.readers) == 1:
                self._goes_on(monotonic_ns())
            del self.readers[thread]

    def dies(self, error: BaseException) -> None:
        """Note that this thread ends with an uncaught error. Usually the error has closed its pass before."""
        reader = self.readers.get(get_ident())
        if reader is not None:
            self.left(reader)
        thread = threading.current_thread()
        note_end = self._note_end.pop(thread, None)
        if note_end is not None:
            note_end(thread.name, type(error).__name__)

    def loop_works(self) -> None:
        """Note that the loop works on the batches of a thread."""
        self._newest().loop_works()

    def is_read_by(self, thread: int) -> bool:
        """Whether this thread reads a loader."""
        return thread in self.readers

    def move(self, loop: int) -> None:
        """Reset the clock, with another thread as the loop."""
        self.__init__(loop, self._in_next)  # type: ignore[misc]

    def entered(self, thread: int) -> bool:
        """Note that a thread begins to wait; return whether the caller must report the end of the wait."""
        if thread == self.loop:
            if not self.readers or self._in_next():
                return False
            self._stands, self._got = True, 0
        elif (reader := self.readers.get(thread)) is None or reader.waits:
            return False
        else:
            self._blocked.add(thread)
        self._look()
        return True

    def sleeps(self, seconds: float, now: int) -> bool:
        """Note that the loop begins to sleep; return whether it polls for a batch."""
        (before_s, ended_ns, came), self._came_before_sleep = self._slept, self._came
        again = seconds == before_s and came == self._came and now - ended_ns <= POLLS_APART_NS
        self._row = self._row + 1 if again else 1
        if self._row < FIRST_POLL or not 0 < seconds <= LONGEST_POLL_S or not self.readers or self._in_next():
            return False
        self._stands = True
        if self._row == FIRST_POLL:
            self._got = 0  # all sleeps in a row are one wait
        self._look()
        return True

    def slept(self, seconds: float, *, polls: bool) -> None:
        """Note that the loop's sleep has ended; ``polls`` is the result of ``sleeps``."""
        if polls:
            self.over(self.loop, woken=self._got > 0)
        self._slept = (seconds, monotonic_ns(), self._came_before_sleep)

    def over(self, thread: int, *, woken: bool) -> None:
        """Note that a thread's wait has ended; ``woken``: no timeout ended it."""
        if thread == self.loop:
            self.knows = self.knows or (woken and self.since_ns != 0)
            self._goes_on(monotonic_ns())
            self._stands = False
        else:
            self._blocked.discard(thread)
            self._look()

    def _look(self) -> None:
        """Count the loop's wait while at least one thread could deliver a batch."""
        delivers = any(thread not in self._blocked for thread in self.readers)
        if delivers and self._stands and not self.since_ns and self._got <= MOST_BATCHES:
            self.since_ns = now = monotonic_ns()
            if self.knows:
                self._newest().loop_waits(now)
        elif not delivers:
            self._goes_on(monotonic_ns())

    def _goes_on(self, now: int) -> None:
        if not self.since_ns:
            return
        self._waited_ns += now - self.since_ns
        self.since_ns = 0
        if self.knows and self.readers:
            self._newest().loop_goes_on(now)

    def _newest(self) -> Reader:
        return self.readers[next(reversed(self.readers))]


class _End:
    """An object in a thread's local storage that reports the end of the thread."""

    __slots__ = ("_pid", "_told")

    def __init__(self, told: Callable[[], object]) -> None:
        self._told = told
        self._pid = os.getpid()

    def __del__(
        self, getpid: Callable[[], int] = os.getpid, is_over: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        # A forked child also drops the storage of the parent's threads. At its exit Python drops the storage
        # of daemon threads; modules may be gone by then.
        if getpid() == self._pid and not is_over():
            self._told()


_storage: Final = threading.local()
_clock: ReadAhead | None = None
_own: Callable[..., bool] | None = None  # the original ``Condition.wait`` while ours replaces it
_own_hook: Callable[[threading.ExceptHookArgs], object] | None = None  # the original excepthook of threading
_own_sleep: Callable[[float], None] | None = None
_own_selects: dict[Any, Callable[..., Any]] = {}  # by class of selector


def watch(clock: ReadAhead) -> None:
    """Report each later wait on a condition or selector, each sleep and each thread's death to this clock."""
    global _clock, _own, _own_hook, _own_sleep
    _clock = clock
    if _own_hook is None:
        _own_hook = threading.excepthook
        threading.excepthook = _heard(threading.excepthook)
    if _own is None:
        _own = threading.Condition.wait
        threading.Condition.wait = _timed(_own)  # type: ignore[method-assign]
    if _own_sleep is None:
        _own_sleep = time.sleep
        time.sleep = _timed_sleep(_own_sleep)  # type: ignore[assignment]
    for selector in SELECTORS:
        if selector is not None and selector not in _own_selects:
            _own_selects[selector] = selector.select
            selector.select = _timed(selector.select)


def unwatch() -> None:
    """Restore ``threading``, ``time`` and ``selectors``, unless other code has replaced our function."""
    global _clock, _own, _own_hook, _own_sleep
    _clock = None
    if _own_hook is not None and getattr(threading.excepthook, "__wrapped__", None) is _own_hook:
        threading.excepthook = _own_hook  # type: ignore[assignment]
        _own_hook = None
    if _own is not None and getattr(threading.Condition.wait, "__wrapped__", None) is _own:
        threading.Condition.wait = _own  # type: ignore[method-assign, assignment]
        _own = None
    if _own_sleep is not None and getattr(time.sleep, "__wrapped__", None) is _own_sleep:
        time.sleep = _own_sleep  # type: ignore[assignment]
        _own_sleep = None
    for selector, select in list(_own_selects.items()):
        if getattr(selector.select, "__wrapped__", None) is select:
            selector.select = _own_selects.pop(selector)


def _timed(own: Callable[..., Any]) -> Callable[..., Any]:
    entered, over = shield(_entered), shield(_over)

    @functools.wraps(own)
    def wait(self: Any, timeout: float | None = None) -> Any:
        clock = _clock
        if clock is None or not entered(clock):
            return own(self, timeout)
        woken: Any = None
        try:
            woken = own(self, timeout)
        finally:
            over(clock, bool(woken))
        return woken

    return wait


def _timed_sleep(own: Callable[[float], None]) -> Callable[[float], None]:
    sleeps, slept = shield(_sleeps), shield(_slept)

    @functools.wraps(own)
    def sleep(seconds: float, /) -> None:
        clock = _clock
        if clock is None or get_ident() != clock.loop:
            return own(seconds)
        polls = bool(sleeps(clock, seconds))
        try:
            return own(seconds)
        finally:
            slept(clock, seconds, polls)

    return sleep


def _heard(own: Callable[[threading.ExceptHookArgs], object]) -> Callable[[threading.ExceptHookArgs], object]:
    dies = shield(_dies)

    @functools.wraps(own)
    def excepthook(args: threading.ExceptHookArgs) -> object:
        if _clock is not None and args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            dies(_clock, args.exc_value)
        return own(args)

    return excepthook


def _dies(clock: ReadAhead, error: BaseException) -> None:
    clock.dies(error)


def _sleeps(clock: ReadAhead, seconds: float) -> bool:
    return clock.sleeps(seconds, monotonic_ns())


def _slept(clock: ReadAhead, seconds: float, polls: bool) -> None:
    clock.slept(seconds, polls=polls)


def _entered(clock: ReadAhead) -> bool:
    return clock.entered(get_ident())


def _over(clock: ReadAhead, woken: bool) -> None:
    clock.over(get_ident(), woken=woken)
