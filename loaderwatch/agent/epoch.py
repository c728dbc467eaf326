"""One pass over a loader: what ``iter``, each ``next`` and the end tell the recorder.

``request`` and ``deliver`` tell the whole of it. While nothing special goes on, ``Pass.enter`` and ``Pass.leave`` do the same
faster, and leave the totals to ``settle``.
"""

from __future__ import annotations

import threading
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, Protocol

from loaderwatch.agent.hot import Pass
from loaderwatch.agent.plain.layout import CPU_CLOCK_ABOVE_NS, ENDING
from loaderwatch.agent.recorder import Recorder
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind, Phase, RecordKind

if TYPE_CHECKING:
    from loaderwatch.agent.watch import Watch


class GpuClock(Protocol):
    """Records events on the GPU's stream around each wait."""

    def request(self) -> None:
        """next(loader) was entered."""

    def deliver(self, loader: int, epoch: int, batch: int, request_ns: int) -> None:
        """A batch was delivered."""


def nothing_to_read(iterator: Any) -> tuple[int, int, int]:
    """The reader of an iterator that tells nothing."""
    return UNKNOWN, UNKNOWN, UNKNOWN


class Epoch(Pass):
    """One pass over one watched loader."""

    __slots__ = (
        "_begun",
        "_depth",
        "_gpu",
        "_settled",
        "drained",
        "ended",
        "gap_ns",
        "iter_cpu_ns",
        "iter_ns",
        "kind",
        "off_main_thread",
        "request_ns",
        "waited_before_ns",
        "watch",
        "workers",
    )

    def __init__(self, watch: Watch, recorder: Recorder, number: int) -> None:
        super().__init__(recorder, watch.phases, recorder.ring.numbers, nothing_to_read, watch.loader, number)
        self.watch = watch
        self._gpu: GpuClock | None = watch.gpu
        # iter(loader), filled in by the watch:
        self.request_ns = monotonic_ns()
        self.iter_ns = UNKNOWN
        self.iter_cpu_ns = UNKNOWN
        self.kind = IterKind.WRAPPED
        self.workers = 0
        self.drained = 0
        self.gap_ns = UNKNOWN
        # the batch at hand, beside what the hot path keeps of it:
        self.off_main_thread = 0
        self.ended: EndedBy | None = None
        self._begun = False
        self.waited_before_ns = 0
        self._settled = (0, 0)  # batches and steps that the totals hold
        self._depth = 0  # recorder.depth at the request

    def step(self) -> int:
        """The step's number: optimizer steps so far if an optimizer is watched, else batches of this loader."""
        phases = self.phases
        return phases.steps_finished if phases is not None and phases.has_optimizer else self.watch.batches

    def settle(self) -> None:
        """Bring the totals up to date."""
        now = self.batch + 1, self.batch + (not self.delivered_ns)
        if now == self._settled:
            return
        batches, steps = self._settled
        self._settled = now
        recorder = self.recorder
        self.watch.batches += now[0] - batches
        recorder.batches += now[0] - batches
        recorder.count_steps(now[1] - steps)

    def cool(self) -> None:
        """Leave the hot path."""
        self.settle()
        if self.thread:
            self.thread = 0
            self.memory = None
            if not self.delivered_ns:
                self.recorder.depth = 1  # it is inside next()

    def publish(self, phase: Phase, since_ns: int, batch: int, awaited: int = UNKNOWN) -> None:
        """Say that this pass is what goes on."""
        self.recorder.publish(
            phase,
            since_ns,
            self.loader,
            self.number,
            batch,
            self.step(),
            awaited,
            step_follows=self.phases is None or not self.phases.has_optimizer,
        )

    def request(self, iterator: Any, now: int) -> None:
        """``next(loader)`` was entered at ``now``: the step before ends, a wait begins."""
        recorder = self.recorder
        recorder.cool()
        if self.delivered_ns:
            self._end_step(now)
        if self.ended is not None:
            if self.ended is not EndedBy.ERROR:
                return  # exhausted: asking again tells nothing new
            self.ended = None
        self.ready, self.cached, self.awaited = self.read(iterator)
        self.wait_since_ns = now
        if threading.get_ident() == recorder.thread:
            self.off_main_thread = 0
            depth = recorder.outer_waits(own=1)
            self._depth = depth
            recorder.depth = depth + 1
        else:
            self.off_main_thread = 1
            depth = 0
        if not depth:
            if self.awaited == ENDING:
                self.publish(Phase.TEARDOWN, now, self.batch + 1)
            else:
                self.publish(Phase.WAIT, now, self.batch + 1, self.awaited)
        if self._gpu is not None and not depth and not self.off_main_thread:
            self._gpu.request()
        # UNKNOWN is negative: "not known to be ready" reads the clock unless the wait before was short
        self.cpu_ns = thread_time_ns() if self.armed or self.ready == 0 else 0

    def deliver(self) -> None:
        """The batch is there: the wait ends, a step begins."""
        if self.ended is not None:
            return  # detached while it waited
        cpu = thread_time_ns() if self.cpu_ns else 0
        now = monotonic_ns()
        recorder = self.recorder
        recorder.cool()
        wait = now - self.wait_since_ns
        self.wait_ns = wait
        self.wait_cpu_ns = cpu - self.cpu_ns if cpu else UNKNOWN
        self.armed = wait > CPU_CLOCK_ABOVE_NS
        self.batch += 1
        self.delivered_ns = now
        if not self._begun:
            self._write_begin(wait)
        depth = 0
        if not self.off_main_thread:
            depth = self._depth
            recorder.depth = depth
            if not depth:
                recorder.waited_ns += wait
        self.settle()
        self.waited_before_ns = recorder.waited_ns
        if depth:
            return
        self.publish(Phase.STEP, now, self.batch)
        if self.off_main_thread:
            return
        if self._gpu is not None:
            self._gpu.deliver(self.loader, self.number, self.batch, self.wait_since_ns)
        elif not self.armed and len(recorder.open_steps) == 1:
            self._go_live()  # alone: no step of another loader that this one's waits are part of

    def _go_live(self) -> None:
        recorder = self.recorder
        recorder.live = self
        self.memory = recorder.ring.memory
        self.step_ahead = self.watch.batches - self.batch
        self.cpu_ns = 0
        self.thread = recorder.thread

    def fail(self, error: BaseException) -> None:
        """``next`` raised: the epoch is exhausted, or the user's code failed."""
        if self.ended is not None:
            return
        took = monotonic_ns() - self.wait_since_ns
        self.recorder.cool()
        if not self.off_main_thread:
            self.recorder.depth = self._depth
            if not self._depth:
                self.recorder.waited_ns += took
        exhausted = isinstance(error, StopIteration)
        self.end(EndedBy.EXHAUSTED if exhausted else EndedBy.ERROR, self.wait_since_ns, took)

    def end(self, ended_by: EndedBy, request_ns: int, teardown_ns: int) -> None:
        """The epoch is over.

        Args:
            ended_by: how.
            request_ns: when its end began.
            teardown_ns: how long that took; ``UNKNOWN`` when nobody saw it.
        """
        if self.ended is not None:
            return
        recorder = self.recorder
        recorder.cool()
        if self.delivered_ns:
            self._end_step(request_ns if teardown_ns != UNKNOWN else UNKNOWN)
        if not self._begun:
            self._write_begin(UNKNOWN)
        self.ended = ended_by
        self.settle()
        now = monotonic_ns()
        self.watch.ended_ns = now if teardown_ns != UNKNOWN else UNKNOWN
        if self in recorder.open_steps:
            recorder.open_steps.remove(self)
        recorder.ring.append(
            RecordKind.EPOCH_END,
            self.loader,
            self.number,
            request_ns,
            teardown_ns,
            self.batch + 1,
            ended_by,
        )
        recorder.publish_outer(now)

    def _end_step(self, now: int) -> None:
        recorder = self.recorder
        delivered = self.delivered_ns
        self.delivered_ns = 0
        nested = recorder.waited_ns - self.waited_before_ns if not self.off_main_thread else 0
        phases = self.phases
        if phases is None:
            h2d = forward = backward = optimizer = optimizer_steps = collective = UNKNOWN
        else:
            h2d, forward, backward, optimizer, optimizer_steps, collective = phases.take()
        recorder.ring.append(
            RecordKind.STEP,
            self.loader,
            self.number,
            self.batch,
            self.step(),
            self.wait_since_ns,
            self.wait_ns,
            self.wait_cpu_ns,
            self.ready,
            self.cached,
            self.awaited,
            now - delivered - nested if now != UNKNOWN else UNKNOWN,
            h2d,
            forward,
            backward,
            optimizer,
            nested,
            self.off_main_thread,
            optimizer_steps,
            collective,
        )
        self.settle()

    def _write_begin(self, first_wait_ns: int) -> None:
        self._begun = True
        self.recorder.open_steps.append(self)
        self.recorder.ring.append(
            RecordKind.EPOCH_BEGIN,
            self.loader,
            self.number,
            self.request_ns,
            self.iter_ns,
            self.iter_cpu_ns,
            self.watch.sampler_ns,
            first_wait_ns,
            self.kind,
            self.workers,
            self.drained,
            self.gap_ns,
        )
