"""How long the training loop waits for a thread that reads its loader ahead.

Such a thread hands its batches on through a queue, a future or an event of its own, so the loop does not wait in
``next(loader)`` but there. All of Python's ``threading``, ``queue`` and ``concurrent.futures`` wait in
``threading.Condition.wait``, which is timed from the first batch on that a thread asks a watched loader for.

Not every such wait is for a batch. It is not while the thread itself waits, as for a place in a full queue; nor while the
thread goes on to get one batch after the other, and the loop does not wake up. ``queue.SimpleQueue`` waits in C, where we
cannot see it: then nothing is known of the loop's waits.

A thread that dies of an error of its own tells nobody but ``threading.excepthook``; the loop waits for it for ever.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from threading import get_ident
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from loaderwatch.agent.guard import shield
from loaderwatch.core.clock import monotonic_ns

MOST_BATCHES: Final = 2
"""Batches that a thread may get while the loop waits for one of them: the awaited one, and the next that it asks for at once."""


class Reader(Protocol):
    """A pass over a loader that a thread reads."""

    @property
    def waits(self) -> bool:
        """Whether the thread is inside ``next`` of this pass."""

    def loop_works(self) -> None:
        """Note that the loop works on what a thread reads; called from the loop's thread, not at each step."""

    def loop_waits(self, now: int) -> None:
        """Note that the loop waits for the thread from now on."""

    def loop_goes_on(self, now: int) -> None:
        """Note that the loop waits no longer."""

    @property
    def note_end(self) -> Callable[[str, str | None], None]:
        """Publishes which thread read the loader, by its name, and the type of the error that ended it; keeps no pass alive."""


class ReadAhead:
    """The clock of the loop's waits for threads that read loaders ahead. Times are monotonic nanoseconds.

    Args:
        loop: the identifier of the thread that trains.
        in_next: tells whether that thread is inside ``next`` of a loader that it reads itself.
    """

    def __init__(self, loop: int, in_next: Callable[[], bool]) -> None:
        self.loop = loop
        self._in_next = in_next
        self.knows = False  # the loop was seen to be woken by a batch, so its waits are known from here on
        self.since_ns = 0  # when the loop's present wait for a batch began; 0: it waits for none
        self._waited_ns = 0
        self.readers: dict[int, Reader] = {}  # by thread, the newest last
        # by thread, also after its pass; not by identifier, which the next thread may get
        self._note_end: WeakKeyDictionary[threading.Thread, Callable[[str, str | None], None]] = (
            WeakKeyDictionary()
        )
        self._blocked: set[int] = set()  # those of the threads that wait themselves
        self._stands = False  # the loop is in a wait of whatever kind
        self._got = 0  # batches that the threads got in that wait

    def waited_ns(self, now: int) -> int:
        """Return how long the loop has waited for batches so far."""
        return self._waited_ns + (max(0, now - self.since_ns) if self.since_ns else 0)

    def reads(self, reader: Reader) -> bool:
        """Note that this thread asks for a batch; return whether it is the first time that it reads this pass."""
        thread = get_ident()
        known = self.readers.pop(thread, None)
        self.readers[thread] = reader
        if known is not reader:
            self._note_end[threading.current_thread()] = reader.note_end
        if known is None:
            watch(self)
        self._blocked.discard(thread)
        self._look()
        return known is not reader

    def gets(self) -> None:
        """Note that a thread got a batch."""
        self._got += 1
        if self._got > MOST_BATCHES and self.since_ns:  # the loop waits for something else
            self.since_ns = 0
            if self.knows:
                self._newest().loop_goes_on(monotonic_ns())

    def left(self, reader: Reader) -> None:
        """Note that a pass ended, or that the loop reads it itself."""
        for thread in [thread for thread, one in self.readers.items() if one is reader]:
            self._blocked.discard(thread)
            if len(self.readers) == 1:
                self._goes_on(monotonic_ns())
            del self.readers[thread]

    def dies(self, error: BaseException) -> None:
        """Note that this thread ends with an error that nobody catches; its pass was closed on the way out, as a rule."""
        reader = self.readers.get(get_ident())
        if reader is not None:
            self.left(reader)
        thread = threading.current_thread()
        note_end = self._note_end.pop(thread, None)
        if note_end is not None:
            note_end(thread.name, type(error).__name__)

    def loop_works(self) -> None:
        """Note that the loop works on what a thread reads."""
        self._newest().loop_works()

    def is_read_by(self, thread: int) -> bool:
        """Whether this thread reads a loader."""
        return thread in self.readers

    def move(self, loop: int) -> None:
        """Begin anew, with another thread as the loop."""
        self.__init__(loop, self._in_next)  # type: ignore[misc]

    def entered(self, thread: int) -> bool:
        """Note that a thread begins to wait; return whether its end is to be told."""
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

    def over(self, thread: int, *, woken: bool) -> None:
        """Note that a thread waits no longer; ``woken``: not because its patience ended."""
        if thread == self.loop:
            self.knows = self.knows or (woken and self.since_ns != 0)
            self._goes_on(monotonic_ns())
            self._stands = False
        else:
            self._blocked.discard(thread)
            self._look()

    def _look(self) -> None:
        """Count the loop's wait while any of the threads could bring a batch."""
        brings = any(thread not in self._blocked for thread in self.readers)
        if brings and self._stands and not self.since_ns and self._got <= MOST_BATCHES:
            self.since_ns = now = monotonic_ns()
            if self.knows:
                self._newest().loop_waits(now)
        elif not brings:
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


_clock: ReadAhead | None = None
_own: Callable[..., bool] | None = None  # Condition's own wait, while ours is in its place
_own_hook: Callable[[threading.ExceptHookArgs], object] | None = None  # and threading's own excepthook


def watch(clock: ReadAhead) -> None:
    """Tell this clock of each wait on a condition from now on, and of threads that die."""
    global _clock, _own, _own_hook
    _clock = clock
    if _own_hook is None:
        _own_hook = threading.excepthook
        threading.excepthook = _heard(threading.excepthook)
    if _own is None:
        _own = threading.Condition.wait
        threading.Condition.wait = _timed(_own)  # type: ignore[method-assign]


def unwatch() -> None:
    """Give ``threading`` its own wait and its own hook back, unless somebody else has replaced ours."""
    global _clock, _own, _own_hook
    _clock = None
    if _own_hook is not None and getattr(threading.excepthook, "__wrapped__", None) is _own_hook:
        threading.excepthook = _own_hook  # type: ignore[assignment]
        _own_hook = None
    if _own is not None and getattr(threading.Condition.wait, "__wrapped__", None) is _own:
        threading.Condition.wait = _own  # type: ignore[method-assign, assignment]
        _own = None


def _timed(own: Callable[..., bool]) -> Callable[..., bool]:
    entered, over = shield(_entered), shield(_over)

    @functools.wraps(own)
    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        clock = _clock
        if clock is None or not entered(clock):
            return own(self, timeout)
        woken = False
        try:
            woken = own(self, timeout)
        finally:
            over(clock, woken)
        return woken

    return wait


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


def _entered(clock: ReadAhead) -> bool:
    return clock.entered(get_ident())


def _over(clock: ReadAhead, woken: bool) -> None:
    clock.over(get_ident(), woken=woken)
