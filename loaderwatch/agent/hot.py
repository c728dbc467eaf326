"""The hot path: ``__next__`` of a watched iterator, in one frame.

After a step of the user's model nothing of ours is in the processor's caches: every function called, every object and
every line of memory touched costs several times what it costs in a loop of its own. So the usual case (training thread,
batches that come without a long wait, nothing nested) is spelled out here: two clocks, one ``pack_into`` for the record of
the step that ended, and five words of the open span. All that can be known later is left to ``Epoch.settle`` and to the
reader of the ring; everything else goes through ``Epoch.request`` and ``Epoch.deliver``.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from typing import Any, Final

from loaderwatch.agent.epoch import CPU_CLOCK_ABOVE_NS, ENDING
from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard
from loaderwatch.core.records import UNKNOWN, Phase, RecordKind
from loaderwatch.core.ring import (
    HEADER_BYTES,
    MAIN_CAPACITY,
    SHORT_STEP,
    SLOT_BYTES,
    pack_short_step,
    pack_slot,
)
from loaderwatch.core.span import AWAITED_WORD, BATCH_WORD, CURSOR_WORD, SINCE_WORDS

STEP: Final = int(RecordKind.STEP)
_WAIT: Final = SINCE_WORDS[Phase.WAIT]
_TEARDOWN: Final = SINCE_WORDS[Phase.TEARDOWN]
_STEP: Final = SINCE_WORDS[Phase.STEP]


def timed_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``__next__`` that tells the epoch in ``self._loaderwatch`` about each call of the iterator's own ``__next__``."""

    def __next__(self: Any) -> Any:
        epoch = self._loaderwatch
        words = None  # this call has not taken the hot path; another thread's may, on the same iterator
        now = monotonic_ns()
        try:
            if epoch.thread == get_ident():
                batch = epoch.batch
                delivered = epoch.delivered_ns
                ready, cached, awaited = epoch.seen
                number = next(epoch.numbers)
                phases = epoch.phases
                if phases is None:
                    pack_short_step(
                        epoch.memory,
                        HEADER_BYTES + (number - 1) % MAIN_CAPACITY * SLOT_BYTES,
                        number,
                        SHORT_STEP,  # its fields in the order of RECORD_FIELDS
                        epoch.loader,
                        epoch.number,
                        batch,
                        epoch.step_ahead + batch,
                        epoch.wait_since_ns,
                        epoch.wait_ns,
                        epoch.wait_cpu_ns,
                        ready,
                        cached,
                        awaited,
                        now - delivered,
                        number,
                    )
                else:
                    h2d, forward, backward, optimizer, steps, collective = phases.take()
                    pack_slot(
                        epoch.memory,
                        HEADER_BYTES + (number - 1) % MAIN_CAPACITY * SLOT_BYTES,
                        number,
                        STEP,
                        epoch.loader,
                        epoch.number,
                        batch,
                        phases.steps_finished if phases.has_optimizer else epoch.step_ahead + batch,
                        epoch.wait_since_ns,
                        epoch.wait_ns,
                        epoch.wait_cpu_ns,
                        ready,
                        cached,
                        awaited,
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
                free = epoch.free
                if free is None:
                    epoch.seen = ready, cached, awaited = epoch.read(self)
                else:
                    tasks = self._task_info
                    ready = epoch.limit - free()
                    awaited = tasks[self._rcvd_idx][0] if tasks else ENDING
                    epoch.seen = ready, len(tasks) - self._tasks_outstanding, awaited
                batch += 1
                words = epoch.words
                words[CURSOR_WORD] = number
                words[BATCH_WORD] = batch
                words[AWAITED_WORD] = awaited
                words[_WAIT if awaited != ENDING else _TEARDOWN] = epoch.wait_since_ns = now
                epoch.delivered_ns = 0
                if not ready:
                    epoch.cpu_ns = thread_time_ns()
            else:
                epoch.request(self, now)
        except Exception as fault:  # noqa: BLE001 - the guard's seam: a fault of ours must not reach training
            guard.note(fault)
        try:
            answer = call(self)
        except BaseException as error:
            try:
                epoch.fail(error)
                leave_out_ours(error)
            except Exception as fault:  # noqa: BLE001 - the guard's seam
                guard.note(fault)
            raise
        try:
            if words is not None and epoch.thread:
                cpu = UNKNOWN
                if epoch.cpu_ns:
                    cpu = thread_time_ns() - epoch.cpu_ns
                    epoch.cpu_ns = 0
                arrived = monotonic_ns()
                words[_STEP] = epoch.delivered_ns = arrived
                epoch.wait_ns = wait = arrived - now
                epoch.wait_cpu_ns = cpu
                epoch.batch = batch
                if wait > CPU_CLOCK_ABOVE_NS:
                    epoch.armed = True
                    epoch.recorder.cool()
            else:
                epoch.deliver()
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)
        return answer

    __next__._torchdynamo_disable = True  # type: ignore[attr-defined]  # never inlined into a compiled loop
    return __next__
