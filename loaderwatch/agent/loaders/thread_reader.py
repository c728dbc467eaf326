"""A pass over a loader that another thread than the training's reads, and what the loop itself has of it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from loaderwatch.agent.hot import PhaseClock
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.agent.prefetch_thread_waits import ReadAhead
from loaderwatch.agent.recorder import Recorder
from loaderwatch.core.records import UNKNOWN, Phase, ReadBy

CALLS_AT: Final = (8, 64, 512)
"""Batches of a pass at which it is noted where the loop is that takes them, as long as it was not seen to wait for one: in its body, as a
rule, since the thread soon reads no more than the loop takes."""


class ReadPass(Protocol):
    """The part of a pass that its thread's reader uses."""

    recorder: Recorder
    watch: Watch
    batch: int
    awaited: int
    delivered_ns: int
    phases: PhaseClock | None

    @property
    def waits(self) -> bool:
        """Whether somebody is inside ``next`` of this pass."""

    @property
    def trains(self) -> bool:
        """Whether this pass's batches are steps of the training; those of an evaluation are not."""

    def publish(self, phase: Phase, since_ns: int, batch: int, awaited: int = UNKNOWN) -> None:
        """Publish this pass as what the process is doing now."""

    def work(self, ns: int, phases: PhaseClock | None) -> None:
        """Add ``ns`` of the loop's work with this pass's batch, and the phases that the clock counted in that time."""


class ThreadReader:
    """Tells of the loop's waits for the thread that reads a pass, where they are known; else of the thread's own."""

    __slots__ = ("_ahead", "_called", "_pass", "_waited_ns")

    def __init__(self, one: ReadPass, ahead: ReadAhead) -> None:
        self._pass = one
        self._ahead = ahead
        self._called = False  # it is known from where the loop takes the batches
        self._waited_ns = 0  # how long the loop had waited in all as the thread asked for the present batch

    @property
    def waits(self) -> bool:
        """Whether the thread is inside ``next`` of this pass."""
        return self._pass.waits

    @property
    def note_end(self) -> Callable[[str, str | None], None]:
        """Publishes which thread read the loader, by its name, and the type of the error that ended it ("": not known)."""
        return self._pass.watch.note_reader

    def asks(self, now: int) -> None:
        """Note that the thread asks for a batch."""
        one, ahead = self._pass, self._ahead
        if ahead.reads(self):
            one.watch.note_reader(threading.current_thread().name, None)
            self._waited_ns = ahead.waited_ns(now)
        if one.trains and not self._called and one.batch in CALLS_AT:
            one.watch.note_calls(one.recorder.thread)
        if not ahead.knows:
            one.publish(Phase.WAIT, now, one.batch + 1, one.awaited)
        elif ahead.since_ns:
            self.loop_waits(ahead.since_ns)

    def gets(self, now: int) -> None:
        """Note that the thread got its batch."""
        self._ahead.gets()
        if not self._ahead.knows:
            self._pass.publish(Phase.STEP, now, self._pass.batch)

    def leaves(self, error: BaseException | None = None, *, whole: bool = False) -> None:
        """Note that the thread reads this pass no longer, and what ended that; ``whole``: it came to the pass's end."""
        self._ahead.left(self, whole=whole)
        if error is not None:
            self._pass.watch.note_reader(threading.current_thread().name, type(error).__name__)

    def loop_works(self) -> None:
        """Note that the loop works on what the thread reads; called from the loop's own thread."""
        if self._pass.trains and not self._called:
            self._called = True
            self._pass.watch.note_calls(None)

    def loop_waits(self, now: int) -> None:
        """Note that the loop waits for the thread from now on."""
        one = self._pass
        one.publish(Phase.WAIT, now, one.batch + self.waits, one.awaited if self.waits else UNKNOWN)
        if threading.get_ident() == one.recorder.thread:
            self.loop_works()
            one.work(0, one.phases)  # between two steps of the loop, as no moment of the thread is

    def loop_goes_on(self, now: int) -> None:
        """Note that the loop waits for the thread no longer."""
        self._pass.publish(Phase.STEP, now, self._pass.batch)

    def told(self, now: int, wait_ns: int) -> tuple[ReadBy, int, int]:
        """Return whose time the record of the step that ends now tells, its data wait, and its work."""
        one = self._pass
        whole = wait_ns + now - one.delivered_ns
        before, self._waited_ns = self._waited_ns, self._ahead.waited_ns(now)
        if not self._ahead.knows:
            return ReadBy.THREAD, wait_ns, whole - wait_ns
        waited = min(max(0, self._waited_ns - before), whole)  # less: it turned out to be no wait for a batch
        return ReadBy.AHEAD, waited, whole - waited
