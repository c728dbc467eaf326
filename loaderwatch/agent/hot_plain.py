"""The hot path in Python: what every batch and every step of the model touches.

``_hot.c`` is the same, compiled when loaderwatch is installed; this module says what both do, and takes its place where there
was no compiler (``hot.py`` decides). After a step of the user's model nothing of ours is in the processor's caches: every
function called, every object and every line of memory touched costs several times what it costs in a loop of its own. So
the usual case (training thread, batches that come without a long wait, nothing nested) is spelled out here: two clocks, one
record of the step that ended, and five words of the open span. All that can be known later is left to ``Epoch.settle``
and to the reader of the ring; everything else goes through ``Epoch.request`` and ``Epoch.deliver``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Final

from loaderwatch.core.records import SLOT_FIELDS, UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import (
    HEADER_BYTES,
    MAIN_CAPACITY,
    SHORT_STEP,
    SLOT_BYTES,
    Memory,
    pack_short_step,
    pack_slot,
)
from loaderwatch.core.span import (
    AWAITED_WORD,
    BATCH_WORD,
    CURSOR_WORD,
    SAMPLE_AT,
    SINCE_WORDS,
    STEPS_WORD,
    WORDS_AT,
    pack_sample,
    words_of,
)

if TYPE_CHECKING:
    from loaderwatch.agent.recorder import Recorder

ENDING: Final = -2
"""As the awaited worker: there is no batch left, so this ``next`` will tear the iterator down."""

CPU_CLOCK_ABOVE_NS: Final = 100_000
"""A wait longer than this makes the next one read the thread's CPU clock at its beginning too.

The clock is a system call (about 400 ns, a tenth of what a hook may cost), and below this wait nobody asks where it
went. So it is skipped while batches are ready and the wait before was short, and the CPU time is unknown then.
"""

LOOK_EVERY: Final = 8
"""Steps of which one is looked at closely: where its input lies, and when the first gradient reaches the model's output.

The hook that tells the latter has to be set anew in every step, about 7 µs in all.
"""

Reader = Callable[[Any], tuple[int, int, int]]
"""Reads an iterator: batches ready, batches cached out of order, the worker whose batch must come next."""

_STEP_KIND: Final = int(RecordKind.STEP)
_WAIT: Final = SINCE_WORDS[Phase.WAIT]
_STEP: Final = SINCE_WORDS[Phase.STEP]
_FORWARD: Final = SINCE_WORDS[Phase.FORWARD]
_BACKWARD: Final = SINCE_WORDS[Phase.BACKWARD]
_OPTIMIZER: Final = SINCE_WORDS[Phase.OPTIMIZER]
_TEARDOWN: Final = SINCE_WORDS[Phase.TEARDOWN]
_MAX_INDEX: Final = 2**62
_NOWHERE: Final = memoryview(bytearray(8 * (STEPS_WORD + 1))).cast("q")

LAYOUT: Final = (
    UNKNOWN,
    ENDING,
    _STEP_KIND,
    SHORT_STEP,
    SLOT_FIELDS,
    HEADER_BYTES,
    MAIN_CAPACITY,
    WORDS_AT,
    CURSOR_WORD,
    BATCH_WORD,
    AWAITED_WORD,
    _WAIT,
    _STEP,
    _FORWARD,
    _BACKWARD,
    _OPTIMIZER,
    _TEARDOWN,
    STEPS_WORD,
    (SAMPLE_AT - WORDS_AT) // 8,
    CPU_CLOCK_ABOVE_NS,
    LOOK_EVERY,
)
"""What ``_hot.c`` has as its own constants."""


class _InSpan:
    """Stores words of the open span."""

    __slots__ = ("_memory", "_words")

    @property
    def memory(self) -> Memory | None:
        """Of the ring whose open span it is; None: nowhere."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory | None) -> None:
        self._memory = memory
        self._words = _NOWHERE if memory is None else words_of(memory)


class PhaseClock(_InSpan):
    """The phases of a step as public hooks tell them, added up until ``take``. Times are nanoseconds, monotonic.

    Args:
        memory: of the ring, or None.
        tensor: the class of plain tensors.
        is_grad_enabled: PyTorch's.
        queue_callback: of the autograd engine; what DDP and FSDP use to act at the end of a backward pass.
        note: takes a fault of ours, and raises it again if it is not.
    """

    def __init__(
        self,
        memory: Memory | None,
        tensor: type[Any],
        is_grad_enabled: Callable[[], bool],
        queue_callback: Callable[[Callable[[], None]], None],
        note: Callable[[Exception], None],
    ) -> None:
        self.memory = memory
        self._tensor = tensor
        self._is_grad_enabled = is_grad_enabled
        self._queue_callback = queue_callback
        self._note = note
        self.has_model = False
        self.has_optimizer = False
        self.steps_finished = 0
        self.steps = 0  # and those before it was watched
        self.saw_forward = False  # never, when the model runs compiled: hooks are not traced
        self.exchanges = False  # the model is DDP's
        self.h2d_ns = UNKNOWN
        self.forward_ns = self.backward_ns = self.optimizer_ns = self.optimizer_steps = self.collective_ns = 0
        self.forward_depth = self.forward_since = self.backward_since = self.optimizer_since = 0
        self.computed_at = 0
        self.model_ns_before = 0
        self.blind_backward = False  # an output without a tensor that could tell of backward
        self.until_look = 0  # steps; 0: this one
        self.on_host = False  # the input lay there when it was looked at last
        self.parameter_tells = (
            False  # the last parameter got a gradient in the last backward pass that was looked at
        )
        self.model_ended_at = 0  # the last pass through it, forward or backward
        # from the first gradient at the model's output to that of the last parameter:
        self._in_head = False
        self.head_ns = 0  # the lesser of the last two
        self._last_head_ns: float = inf

    def moved(self, inputs: tuple[Any, ...]) -> None:
        """The step's first forward pass began, and its first input is no plain tensor in the host's memory."""

    def look_at_output(self, module: Any, output: Any) -> None:
        """A forward pass ended in a step that is looked at."""

    def take(self) -> tuple[int, int, int, int, int, int]:
        """Since the last call: h2d, forward, backward, optimizer in ns, optimizer steps, collectives in ns."""
        forward, backward, optimizer = self.forward_ns, self.backward_ns, self.optimizer_ns
        if self.parameter_tells and self.until_look and forward and not backward:
            self.parameter_tells, self.blind_backward = False, True  # it had no part in this step
        optimizer_steps = self.optimizer_steps
        if not self.has_optimizer:
            optimizer = optimizer_steps = UNKNOWN
        collective = UNKNOWN
        if not (self.has_model and self.saw_forward):
            forward = backward = UNKNOWN
        else:
            if self.exchanges:
                collective = self.collective_ns
            if self.blind_backward:
                backward = UNKNOWN
        h2d = self.h2d_ns
        self.h2d_ns = UNKNOWN
        self.forward_ns = self.backward_ns = self.optimizer_ns = self.optimizer_steps = self.collective_ns = 0
        # what an exception in the user's code left open
        self.forward_depth = self.forward_since = self.backward_since = self.optimizer_since = 0
        self.computed_at = 0
        self._in_head = False
        self.until_look = self.until_look - 1 if self.until_look else LOOK_EVERY - 1
        if not (self.until_look and self.parameter_tells):
            self.blind_backward = False
        return h2d, forward, backward, optimizer, optimizer_steps, collective

    def forward_began(self, module: Any, inputs: Any) -> None:
        """The outermost module was called with these positional arguments."""
        try:
            self.forward_depth = depth = self.forward_depth + 1
            if depth != 1 or not self._is_grad_enabled() or self.backward_since:
                return
            self._words[_FORWARD] = self.forward_since = monotonic_ns()
            self.saw_forward = True
            if self.forward_ns or (self.on_host and self.until_look) or not inputs:
                return
            first: Any = inputs[0]
            self.on_host = type(first) is self._tensor and first.is_cpu
            if not self.on_host:
                self.moved(inputs)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def forward_ended(self, module: Any, inputs: Any, output: Any) -> None:
        """It returned."""
        try:
            depth = self.forward_depth
            if depth > 0:
                self.forward_depth = depth = depth - 1
            since = self.forward_since
            if depth or not since:
                return
            self.model_ended_at = now = monotonic_ns()
            self.forward_ns += now - since
            self.forward_since = 0
            self._words[_FORWARD] = UNKNOWN
            if not (self.parameter_tells and self.until_look):
                self.look_at_output(module, output)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def gradient_came(self, *_: Any) -> None:
        """A gradient reached the model's output: the first begins the backward pass."""
        try:
            if not self.backward_since:
                self._queue_callback(self.backward_ended)
                self._words[_BACKWARD] = self.backward_since = monotonic_ns()
                self._in_head = True
                self.parameter_tells = False
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def parameter_came(self, *_: Any) -> None:
        """The last parameter got its gradient; without a hook on the output, the backward pass began ``head_ns`` ago."""
        try:
            since = self.backward_since
            if not since:
                self._queue_callback(self.backward_ended)
                since = max(monotonic_ns() - self.head_ns, self.model_ended_at)
                self._words[_BACKWARD] = self.backward_since = since
            elif self._in_head:
                head = monotonic_ns() - since
                self.parameter_tells = self._last_head_ns != inf  # the first is that of a first step
                self.head_ns = int(min(head, self._last_head_ns))
                self._last_head_ns = head
                self._in_head = False
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def backward_ended(self) -> None:
        """The engine calls back."""
        try:
            since = self.backward_since
            if not since:
                return
            now = monotonic_ns()
            if self.exchanges:
                if not self.computed_at:
                    self.computed_at = now
                    # Callbacks run in order: behind the one in which DDP waits for the gradients of the other ranks.
                    self._queue_callback(self.backward_ended)
                    return
                self.collective_ns += now - self.computed_at
                self.computed_at = 0
            self.backward_ns += now - since
            self.backward_since = 0
            self._in_head = False
            self.model_ended_at = now
            self._words[_BACKWARD] = UNKNOWN
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def optimizer_began(self, *_: Any) -> None:
        """``optimizer.step()`` was called."""
        if not self.optimizer_since:
            self.model_ns_before = self.forward_ns + self.backward_ns
            self._words[_OPTIMIZER] = self.optimizer_since = monotonic_ns()

    def optimizer_ended(self, *_: Any) -> None:
        """It returned."""
        since = self.optimizer_since
        if not since:
            return
        inside = self.forward_ns + self.backward_ns - self.model_ns_before  # a closure's
        self.optimizer_ns += monotonic_ns() - since - inside
        self.optimizer_since = 0
        self.optimizer_steps += 1
        self.steps_finished += 1
        words = self._words
        words[STEPS_WORD] = self.steps = self.steps + 1
        words[_OPTIMIZER] = UNKNOWN


class SampleClock:
    """The samples of one fetch, and those before. Times are nanoseconds, monotonic."""

    def __init__(self) -> None:
        self.samples = 0  # of all fetches before
        self.count = 0  # read in this fetch
        self.slow_index = UNKNOWN
        self.slow_ns = UNKNOWN
        self.sample_since_ns = 0

    def walk(self, indices: Iterator[Any], memory: Memory, ordinals: bool) -> Iterator[Any]:
        """The indices, noting when each sample's reading begins.

        Args:
            indices: of the fetch.
            memory: of the ring whose open span shows the sample.
            ordinals: samples are named by their number, not by their index.
        """
        slow_ns = UNKNOWN
        since = monotonic_ns()
        for count, index in enumerate(indices, 1):
            named = self.samples + count - 1 if ordinals else plain_index(index)
            pack_sample(memory, SAMPLE_AT, named, since)
            self.sample_since_ns = since
            yield index
            now = monotonic_ns()
            if now - since > slow_ns:
                slow_ns = now - since
                self.slow_ns, self.slow_index = slow_ns, named
            since = now
            self.count = count


def plain_index(index: Any) -> int:
    """The index as a number; ``UNKNOWN`` for keys of another kind."""
    return index if type(index) is int and -_MAX_INDEX < index < _MAX_INDEX else UNKNOWN


class Pass(_InSpan):
    """What the hot path keeps of one pass over a loader; ``Epoch`` is the whole of it.

    Args:
        recorder: of the process.
        phases: the clock of the model and the optimizer, None when they are not watched.
        numbers: of the ring's records.
        read: reads the iterator.
        loader: its number.
        number: the epoch's.
    """

    __slots__ = (
        "armed",
        "awaited",
        "batch",
        "cached",
        "cpu_ns",
        "delivered_ns",
        "free",
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
        recorder: Recorder,
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
        self.free: Callable[[], int] | None = None  # of the usual iterator, which is read right here
        self.limit = 0
        self.loader = loader
        self.number = number
        # the batch at hand, and the wait for it:
        self.batch = -1
        self.delivered_ns = 0  # 0: no step is open
        self.wait_since_ns = 0
        self.wait_ns = 0
        self.cpu_ns = 0  # the CPU clock when the wait began; 0: not read
        self.wait_cpu_ns = UNKNOWN
        self.ready = self.cached = self.awaited = UNKNOWN  # when the wait began
        self.armed = True  # the next wait is to read the CPU clock
        # while live:
        self.thread = 0  # the one that may take the hot path; 0: nobody, something special is going on
        self.memory = None  # set while it is on the hot path
        self.step_ahead = 0  # the step's number, less the batch's

    def request(self, iterator: Any, now: int) -> None:
        """``next(loader)`` was entered, not on the hot path."""
        raise NotImplementedError

    def deliver(self) -> None:
        """The batch is there, not on the hot path."""
        raise NotImplementedError

    def enter(self, iterator: Any) -> bool:
        """``next(loader)`` was entered; whether on the hot path (another thread may not be, on the same iterator)."""
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
                _STEP_KIND,
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
        self.delivered_ns = 0  # before anything can fail: the step is recorded
        free = self.free
        if free is None:
            ready, cached, awaited = self.read(iterator)
        else:
            tasks = iterator._task_info
            ready = self.limit - free()
            cached = len(tasks) - iterator._tasks_outstanding
            awaited = tasks[iterator._rcvd_idx][0] if tasks else ENDING
        self.ready, self.cached, self.awaited = ready, cached, awaited
        words = (
            self._words
        )  # nowhere, if a signal handler or another thread ran in between and has published something
        words[BATCH_WORD] = batch + 1
        words[AWAITED_WORD] = awaited
        words[_WAIT if awaited != ENDING else _TEARDOWN] = now
        if not ready:
            self.cpu_ns = thread_time_ns()
        return True

    def leave(self) -> None:
        """The batch is there, after an ``enter`` on the hot path."""
        if not self.thread:
            self.deliver()
            return
        cpu = UNKNOWN
        if self.cpu_ns:
            cpu = thread_time_ns() - self.cpu_ns
            self.cpu_ns = 0
        arrived = monotonic_ns()
        self._words[_STEP] = self.delivered_ns = arrived
        self.wait_ns = wait = arrived - self.wait_since_ns
        self.wait_cpu_ns = cpu
        self.batch += 1
        if wait > CPU_CLOCK_ABOVE_NS:
            self.armed = True
            self.recorder.cool()
