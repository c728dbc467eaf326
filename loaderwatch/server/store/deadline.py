"""Deadlines of reads: a query is interrupted when its time is over or nobody waits for its answer any more.

The code that answers a request sets ``CURRENT``; stores read it. One thread interrupts all queries.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final, TypeVar

from loaderwatch.core.errors import LoaderwatchError

_log: Final = logging.getLogger(__name__)

AGAIN_S: Final = 0.05
"""Seconds between interrupts of the same read: DuckDB forgets one that comes just before a query begins."""

LOOK_S: Final = 0.1
"""Seconds between two looks at the deadline while waiting for another thread's work."""

_T = TypeVar("_T")


class Stopped(LoaderwatchError):
    """A read was ended before its answer was complete."""


class Deadline:
    """The time until which reads may go on. Every method may be called from any thread."""

    def __init__(self, within_s: float, why: str, begin_within_s: float = inf) -> None:
        """End reads after ``within_s`` with the error ``why``. No part begins after ``begin_within_s``."""
        self.ends_s = time.monotonic() + within_s  # monotonic
        self._last_begin_s = time.monotonic() + begin_within_s
        self.why = why

    @property
    def left_s(self) -> float:
        """Seconds until the end, 0 afterwards."""
        return max(0.0, self.ends_s - time.monotonic())

    @property
    def may_begin(self) -> bool:
        """Whether there is time for one more part of the work."""
        return time.monotonic() <= self._last_begin_s

    def stop(self, why: str) -> None:
        """End reads now."""
        if self.left_s:
            self.why, self.ends_s = why, -inf
            _watch.look()

    def check(self) -> None:
        """Raise Stopped if the time is over."""
        if not self.left_s:
            raise Stopped(self.why)

    @contextmanager
    def holds(self) -> Iterator[None]:
        """Make this the deadline of all reads in this block, also in threads that it starts and waits for."""
        token = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(token)

    @contextmanager
    def interrupting(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Call ``interrupt`` repeatedly from the end on until this block is left, and never after that.

        Raises:
            Stopped: the time is over already.
        """
        self.check()
        _watch.add(interrupt, self)
        try:
            yield
        finally:
            _watch.remove(interrupt)


CURRENT: Final[ContextVar[Deadline | None]] = ContextVar("loaderwatch_deadline", default=None)
"""The deadline of the request that is being answered. None: no deadline, as on the command line."""


def check() -> None:
    """Raise Stopped if the time of the current request is over."""
    deadline = CURRENT.get()
    if deadline is not None:
        deadline.check()


def may_begin() -> bool:
    """Whether the deadline of this thread has time for one more part of the work."""
    deadline = CURRENT.get()
    return deadline is None or deadline.may_begin


def result_of(made: Future[_T]) -> _T:
    """Return another thread's result as soon as it is ready.

    Raises:
        Stopped: the time of the current request is over. The other thread goes on.
    """
    while True:
        try:
            return made.result(timeout=LOOK_S)
        except FutureTimeoutError:
            if made.done():  # the other thread's own error
                raise
            check()


class _Watch:
    """The thread that interrupts reads whose time is over. It starts with the first read."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reads: dict[Callable[[], None], Deadline] = {}
        self._wakes_s = inf  # monotonic
        self._thread: threading.Thread | None = None

    def add(self, interrupt: Callable[[], None], deadline: Deadline) -> None:
        """Watch a read."""
        with self._changed:
            self._reads[interrupt] = deadline
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="loaderwatch-deadlines", daemon=True)
                self._thread.start()
            elif deadline.ends_s < self._wakes_s:
                self._changed.notify()

    def remove(self, interrupt: Callable[[], None]) -> None:
        """Stop watching a read."""
        with self._changed:
            del self._reads[interrupt]

    def look(self) -> None:
        """Check all deadlines now, because one was changed."""
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:  # ``remove`` waits for this lock, so nothing is interrupted after its read
            while True:
                self._interrupt()
                wait_s = min((max(AGAIN_S, d.left_s) for d in self._reads.values()), default=inf)
                self._wakes_s = time.monotonic() + wait_s
                self._changed.wait(None if wait_s == inf else wait_s)

    def _interrupt(self) -> None:
        for interrupt, deadline in self._reads.items():
            if not deadline.left_s:
                try:
                    interrupt()
                except Exception:  # noqa: BLE001 - the thread must go on for all other reads
                    _log.exception("a read could not be interrupted")


_watch: Final = _Watch()
