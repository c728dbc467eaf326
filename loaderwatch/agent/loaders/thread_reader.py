"""A pass over a loader that a thread reads ahead, seen from the training loop."""

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
"""Batches of a pass at which the loop's place in the script is noted, until the loop is seen to wait.

The place is usually in the loop's body, because the thread soon reads only as fast as the loop takes batches.
"""


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
        """Whether a thread is inside ``next`` of this pass."""

    @property
    def trains(self) -> bool:
        """Whether this pass's batches are training steps. Batches of an evaluation are not."""

    def publish(self, phase: Phase, since_ns: int, batch: int, awaited: int = UNKNOWN) -> None:
        """Publish this pass as the process's current activity."""

    def work(self, ns: int, phases: PhaseClock | None) -> None:
        """Add ``ns`` of the loop's work with this pass's batch, and the phases counted in that time."""


class ThreadReader:
    """Reports the loop's waits for the thread that reads a pass; if unknown, the thread's own waits."""

    __slots__ = ("_ahead", "_called", "_pass", "_waited_ns")

    def __init__(self, one: ReadPass, ahead: ReadAhead) -> None:
        self._pass = one
        self._ahead = ahead
        self._called = False  # the loop's place in the script is known
        self._waited_ns = 0  # the loop's total wait when the thread asked for the current batch

    @property
    def waits(self) -> bool:
        """Whether the thread is inside ``next`` of this pass."""
        return self._pass.waits

    @property
    def note_end(self) -> Callable[[str, str | None], None]:
        """Publishes the name of the reading thread and the type of the error that ended it ("": unknown)."""
        return self._pass.watch.note_reader

    def asks(self, now: int) -> None:
        """Note that the thread asks for a batch."""
        read_pass, ahead = self._pass, self._ahead
        if ahead.reads(self):
            read_pass.watch.note_reader(threading.current_thread().name, None)
            self._waited_ns = ahead.waited_ns(now)
        if read_pass.trains and not self._called and read_pass.batch in CALLS_AT:
            read_pass.watch.note_calls(read_pass.recorder.thread)
        if not ahead.knows:
            read_pass.publish(Phase.WAIT, now, read_pass.batch + 1, read_pass.awaited)
        elif ahead.since_ns:
            self.loop_waits(ahead.since_ns)

    def gets(self, now: int) -> None:
        """Note that the thread got its batch."""
        self._ahead.gets()
        if not self._ahead.knows:
            self._pass.publish(Phase.STEP, now, self._pass.batch)

    def leaves(self, error: BaseException | None = None, *, whole: bool = False) -> None:
        """Note that the thread stops reading this pass, and why; ``whole``: it read the pass to its end."""
        self._ahead.left(self, whole=whole)
        if error is not None:
            self._pass.watch.note_reader(threading.current_thread().name, type(error).__name__)

    def loop_works(self) -> None:
        """Note that the loop works on the thread's batches; called in the loop's own thread."""
        if self._pass.trains and not self._called:
            self._called = True
            self._pass.watch.note_calls(None)

    def loop_waits(self, now: int) -> None:
        """Note that the loop begins to wait for the thread."""
        read_pass = self._pass
        read_pass.publish(
            Phase.WAIT, now, read_pass.batch + self.waits, read_pass.awaited if self.waits else UNKNOWN
        )
        if threading.get_ident() == read_pass.recorder.thread:
            self.loop_works()
            # The loop is between two steps here; the thread's own reads never are.
            read_pass.work(0, read_pass.phases)

    def loop_goes_on(self, now: int) -> None:
        """Note that the loop's wait for the thread has ended."""
        self._pass.publish(Phase.STEP, now, self._pass.batch)

    def told(self, now: int, wait_ns: int) -> tuple[ReadBy, int, int]:
        """Return whose times the record of the ending step holds, its data wait, and its work."""
        read_pass = self._pass
        whole_ns = wait_ns + now - read_pass.delivered_ns
        waited_before_ns, self._waited_ns = self._waited_ns, self._ahead.waited_ns(now)
        if not self._ahead.knows:
            return ReadBy.THREAD, wait_ns, whole_ns - wait_ns
        # Below 0 if the wait was not for a batch after all.
        waited_ns = min(max(0, self._waited_ns - waited_before_ns), whole_ns)
        return ReadBy.AHEAD, waited_ns, whole_ns - waited_ns
