"""The hot path: ``__next__`` of a watched iterator, in one frame.

After a step of the user's model nothing of ours is in the processor's caches, and every function called, every object
touched costs several times what it costs in a loop of its own. So what ``Epoch.request`` and ``Epoch.deliver`` do is
spelled out here for the usual case: training thread, batches that come without a long wait, nothing nested.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from typing import Any

from loaderwatch.agent.epoch import CPU_CLOCK_ABOVE_NS, ENDING
from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import (
    CURSOR_AT,
    HEADER_BYTES,
    SLOT_BYTES,
    SPAN_AT,
    pack_cursor,
    pack_slot,
    pack_span,
)


def timed_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``__next__`` that tells the epoch in ``self._loaderwatch`` about each call of the iterator's own ``__next__``."""

    def __next__(self: Any) -> Any:
        epoch = self._loaderwatch
        cpu = 0
        fast = False
        now = monotonic_ns()
        try:
            recorder = epoch.recorder
            if epoch.fast and not recorder.depth and get_ident() == recorder.thread:
                fast = True
                watch = epoch.watch
                memory = recorder.memory
                loader = epoch.loader
                order = epoch.number
                delivered = epoch.delivered_ns
                epoch.delivered_ns = 0
                nested = recorder.waited_ns - epoch.waited_before_ns
                ready, cached, awaited = epoch.seen
                phases = epoch.phases
                batch_number = epoch.batch
                h2d = forward = backward = optimizer = steps = collective = UNKNOWN
                step = watch.batches
                if phases is not None:
                    h2d, forward, backward, optimizer, steps, collective = phases.take()
                    step = epoch.step()
                number = next(recorder.numbers)
                pack_slot(
                    memory,
                    HEADER_BYTES + (number - 1) % recorder.capacity * SLOT_BYTES,
                    number,
                    1,  # RecordKind.STEP, its fields in the order of RECORD_FIELDS
                    loader,
                    order,
                    batch_number,
                    step,
                    epoch.wait_since_ns,
                    epoch.wait_ns,
                    epoch.wait_cpu_ns,
                    ready,
                    cached,
                    awaited,
                    now - delivered - nested,
                    h2d,
                    forward,
                    backward,
                    optimizer,
                    nested,
                    0,
                    steps,
                    collective,
                    number,
                )
                pack_cursor(memory, CURSOR_AT, number)
                if not recorder.counts_optimizer:
                    recorder.steps += 1
                epoch.seen = seen = epoch.read(self)
                awaited = seen[2]
                batches = recorder.batches
                version = next(recorder.versions)
                pack_span(
                    memory,
                    SPAN_AT,
                    version,
                    2 if awaited != ENDING else 8,  # Phase.WAIT, Phase.TEARDOWN
                    now,
                    loader,
                    order,
                    batch_number + 1,
                    step,
                    awaited if awaited != ENDING else UNKNOWN,
                    UNKNOWN,
                    UNKNOWN,
                    batches,
                    recorder.steps,
                    0,
                    UNKNOWN,
                    0,
                    version,
                )
                recorder.depth = 1
                epoch.wait_since_ns = asked = now
                if not seen[0]:
                    cpu = thread_time_ns()
            else:
                epoch.request(self, now)
        except Exception as fault:  # noqa: BLE001 - the guard's seam: a fault of ours must not reach training
            guard.note(fault)
        try:
            batch = call(self)
        except BaseException as error:
            try:
                epoch.fail(error)
                leave_out_ours(error)
            except Exception as fault:  # noqa: BLE001 - the guard's seam
                guard.note(fault)
            raise
        try:
            if fast and epoch.ended is None:
                recorder.depth = 0
                epoch.wait_cpu_ns = thread_time_ns() - cpu if cpu else UNKNOWN
                now = monotonic_ns()
                epoch.wait_ns = wait = now - asked
                if wait > CPU_CLOCK_ABOVE_NS:
                    epoch.armed = True
                    epoch.fast = False
                recorder.waited_ns = epoch.waited_before_ns = recorder.waited_ns + wait
                recorder.batches = batches = batches + 1
                watch.batches = step = watch.batches + 1
                if phases is not None:
                    step = epoch.step()
                epoch.batch = number = batch_number + 1
                epoch.delivered_ns = now
                version = next(recorder.versions)
                pack_span(
                    memory,
                    SPAN_AT,
                    version,
                    3,  # Phase.STEP
                    now,
                    loader,
                    order,
                    number,
                    step,
                    UNKNOWN,
                    UNKNOWN,
                    UNKNOWN,
                    batches,
                    recorder.steps,
                    0,
                    UNKNOWN,
                    0,
                    version,
                )
            else:
                epoch.deliver()
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)
        return batch

    __next__._torchdynamo_disable = True  # type: ignore[attr-defined]  # never inlined into a compiled loop
    return __next__
