"""The hot path's part of a pass over a loader, in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from typing import Any

from loaderwatch.agent.hot.layout import (
    CPU_CLOCK_ABOVE_NS,
    ENDING,
    STEP,
    STEP_KIND,
    TEARDOWN,
    WAIT,
    InSpan,
    Reader,
)
from loaderwatch.agent.hot.phases import PhaseClock
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import (
    HEADER_BYTES,
    MAIN_CAPACITY,
    SHORT_STEP,
    SLOT_BYTES,
    pack_short_step,
    pack_slot,
)
from loaderwatch.core.ring.span import AWAITED_WORD, BATCH_WORD, CURSOR_WORD


class Pass(InSpan):
    """The state of one pass over a loader that the hot path needs. The subclass ``Epoch`` has the rest.

    The argument ``phases`` is the clock of model and optimizer, None if they are not watched. The numbers of
    the ring's records come from ``numbers``, and the iterator's state from ``read``. The numbers of the
    loader and of the epoch are ``loader`` and ``number``.
    """

    __slots__ = (
        "armed",
        "awaited",
        "batch",
        "cached",
        "cpu_ns",
        "delivered_ns",
        "free",
        "gpu",
        "limit",
        "loader",
        "number",
        "numbers",
        "phases",
        "read",
        "ready",
        "recorder",
        "step_ahead",
        "thread",
        "wait_cpu_ns",
        "wait_ns",
        "wait_since_ns",
    )

    def __init__(
        self,
        recorder: Any,
        phases: PhaseClock | None,
        numbers: Iterator[int],
        read: Reader,
        loader: int,
        number: int,
    ) -> None:
        self.recorder = recorder
        self.phases = phases
        self.numbers = numbers
        self.read = read
        # Counts the free places in the result queue, for iterators whose state the hot path reads itself.
        self.free: Callable[[], int] | None = None
        self.limit = 0
        self.gpu: Any = None  # the device's clock, None without a device
        self.loader = loader
        self.number = number
        # The current batch and its data wait:
        self.batch = -1
        self.delivered_ns = 0  # 0: no step is open
        self.wait_since_ns = 0
        self.wait_ns = 0
        self.cpu_ns = 0  # the CPU clock when the wait began; 0: not read
        self.wait_cpu_ns = UNKNOWN
        self.ready = self.cached = self.awaited = UNKNOWN  # when the wait began
        self.armed = True  # the next wait reads the CPU clock
        # While live:
        self.thread = 0  # the thread that may take the hot path; 0: no thread may, the case is unusual
        self.memory = None  # the ring's memory while this pass is on the hot path
        self.step_ahead = 0  # the step's number minus the batch's

    def request(self, iterator: Any, now: int) -> None:
        """Note that ``next(loader)`` was entered, off the hot path."""
        raise NotImplementedError

    def deliver(self) -> None:
        """Note that the batch was delivered, off the hot path."""
        raise NotImplementedError

    def enter(self, iterator: Any) -> bool:
        """Note that ``next(loader)`` was entered; return whether this call takes the hot path."""
        now = monotonic_ns()
        memory = self._memory
        if memory is None or self.thread != get_ident():
            self.request(iterator, now)
            return False
        batch = self.batch
        delivered = self.delivered_ns
        number = next(self.numbers)
        phases = self.phases
        if phases is None:
            pack_short_step(
                memory,
                HEADER_BYTES + (number - 1) % MAIN_CAPACITY * SLOT_BYTES,
                number,
                SHORT_STEP,  # its fields in the order of RECORD_FIELDS
                self.loader,
                self.number,
                batch,
                self.step_ahead + batch,
                self.wait_since_ns,
                self.wait_ns,
                self.wait_cpu_ns,
                self.ready,
                self.cached,
                self.awaited,
                now - delivered,
                number,
            )
        else:
            h2d, forward, backward, optimizer, steps, collective = phases.take()
            pack_slot(
                memory,
                HEADER_BYTES + (number - 1) % MAIN_CAPACITY * SLOT_BYTES,
                number,
                STEP_KIND,
                self.loader,
                self.number,
                batch,
                phases.steps_finished if phases.has_optimizer else self.step_ahead + batch,
                self.wait_since_ns,
                self.wait_ns,
                self.wait_cpu_ns,
                self.ready,
                self.cached,
                self.awaited,
                now - delivered,
                h2d,
                forward,
                backward,
                optimizer,
                0,
                0,
                steps,
                collective,
                number,
            )
        self._words[CURSOR_WORD] = number
        self.wait_since_ns = now
        self.delivered_ns = 0  # first, because later lines may fail and the step is already recorded
        if self.gpu is not None:
            self.gpu.request()
        free = self.free
        if free is None:
            ready, cached, awaited = self.read(iterator)
        else:
            tasks = iterator._task_info
            ready = self.limit - free()
            cached = len(tasks) - iterator._tasks_outstanding
            awaited = tasks[iterator._rcvd_idx][0] if tasks else ENDING
        self.ready, self.cached, self.awaited = ready, cached, awaited
        # These words go nowhere if a signal handler or another thread has published something in between.
        words = self._words
        words[BATCH_WORD] = batch + 1
        words[AWAITED_WORD] = awaited
        words[WAIT if awaited != ENDING else TEARDOWN] = now
        if self.armed or not ready:
            self.cpu_ns = thread_time_ns()
        return True

    def leave(self) -> None:
        """Note that the batch was delivered, after an ``enter`` on the hot path."""
        if not self.thread:
            self.deliver()
            return
        cpu_ns = UNKNOWN
        if self.cpu_ns:
            cpu_ns = thread_time_ns() - self.cpu_ns
            self.cpu_ns = 0
        now = monotonic_ns()
        self._words[STEP] = self.delivered_ns = now
        self.wait_ns = wait_ns = now - self.wait_since_ns
        self.wait_cpu_ns = cpu_ns
        self.armed = wait_ns > CPU_CLOCK_ABOVE_NS
        self.batch += 1
        if self.gpu is not None:
            self.gpu.deliver(self.loader, self.number, self.batch, self.wait_since_ns)
