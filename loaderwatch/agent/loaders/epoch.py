"""An epoch: one pass over a loader. It records ``iter``, each ``next`` and the end of the pass.

``request`` and ``deliver`` handle every case. In the usual case ``Pass.enter`` and ``Pass.leave`` do the same
faster. They leave the totals to ``settle``.
"""

from __future__ import annotations

import threading
import weakref
from time import thread_time_ns
from typing import TYPE_CHECKING, Any

from loaderwatch.agent.hot import Pass
from loaderwatch.agent.hot.layout import CPU_CLOCK_ABOVE_NS, ENDING, nothing_to_read
from loaderwatch.agent.hot.phases import NO_STEP, NOT_TIMED, Phases, add_phases
from loaderwatch.agent.loaders.thread_reader import ThreadReader
from loaderwatch.agent.loaders.watch import Watch, ended_by
from loaderwatch.agent.recorder import Recorder
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, EndedBy, IterKind, Phase, ReadBy, RecordKind

if TYPE_CHECKING:
    from loaderwatch.agent.hot import PhaseClock


class Epoch(Pass):
    """One pass over one watched loader.

    It gets its number with the first ``next``: an iterator that is never read is no epoch. If a DataLoader
    subclass reads PyTorch's iterator inside its own, only the outer pass records; the inner one is silent.
    """

    __slots__ = (
        "_added",
        "_begun",
        "_counted",
        "_depth",
        "_settled",
        "drained",
        "ended",
        "gap_ns",
        "in_loop",
        "inner",
        "iter_cpu_ns",
        "iter_ns",
        "kind",
        "opened",
        "reader",
        "request_ns",
        "silent",
        "watch",
        "work_ns",
        "workers",
    )
    recorder: Recorder

    def __init__(self, watch: Watch, recorder: Recorder) -> None:
        super().__init__(
            recorder, watch.phases, recorder.ring.numbers, nothing_to_read, watch.loader, watch.epochs
        )
        self.watch = watch
        self.opened = False  # the first ``next`` was called, and the pass has its number
        self.silent = False  # read inside next() of another pass over the same loader, which records
        self.inner: weakref.ref[Any] | None = None  # PyTorch's iterator that feeds this pass, once seen
        self.gpu = watch.gpu
        # About iter(loader), filled in by the watch:
        self.request_ns = monotonic_ns()
        self.iter_ns = UNKNOWN
        self.iter_cpu_ns = UNKNOWN
        self.kind = IterKind.WRAPPED
        self.workers = 0
        self.drained = 0
        self.gap_ns = UNKNOWN
        # About the current batch, in addition to the fields of the hot path:
        self.reader: ThreadReader | None = None  # None: the loop's own thread asked for it
        self.ended: EndedBy | None = None
        self._begun = False
        self.in_loop = False
        self._added = False  # the batch belongs to a step that began with another loader's batch
        self.work_ns = 0  # the loop's work with the batch, measured so far
        self._counted: Phases | None = None  # the step's phases, taken from the clock so far
        self._settled = (0, 0)  # batches and steps of this pass that the totals include
        self._depth = 0  # recorder.depth at the request

    def step(self) -> int:
        """Return the step's number: optimizer steps if one is watched, else batches of this loader."""
        phases = self.phases
        return phases.steps_finished if phases is not None and phases.has_optimizer else self.watch.batches

    def settle(self) -> None:
        """Add this pass's new batches and steps to the totals."""
        now = self.batch + 1, self.batch + (not self.delivered_ns)
        if now == self._settled:
            return
        batches, steps = self._settled
        self._settled = now
        recorder = self.recorder
        self.watch.batches += now[0] - batches
        recorder.batches += now[0] - batches
        if self.trains:
            recorder.count_steps(now[1] - steps)

    @property
    def trains(self) -> bool:
        """Whether this pass's batches are training steps. Batches of an evaluation are not."""
        return self.watch.role == "train"

    def cool(self) -> None:
        """Leave the hot path."""
        self.settle()
        if self.thread:
            self.thread = 0
            self.memory = None
            if not self.delivered_ns:
                self.recorder.depth = 1  # this pass is inside next()

    def publish(self, phase: Phase, since_ns: int, batch: int, awaited: int = UNKNOWN) -> None:
        """Publish this pass as the process's current activity."""
        self.recorder.publish(
            phase,
            since_ns,
            self.loader,
            self.number,
            batch,
            self.step(),
            awaited,
            step_follows=self.phases is None or not self.phases.has_optimizer,
            steps_follow=self.trains,
        )

    @property
    def waits(self) -> bool:
        """Whether a thread is inside ``next`` of this pass."""
        return self.opened and self.ended is None and not self.delivered_ns

    def open(self) -> None:
        """Give the pass its number at its first ``next``."""
        watch = self.watch
        self.opened = True
        self.number = watch.epochs
        watch.epochs += 1
        if watch.note_pass is not None:
            watch.note_pass()
        if self.trains and threading.get_ident() == self.recorder.thread:
            watch.note_calls(None)

    def read_from(self, inner: Any) -> None:
        """Use PyTorch's iterator ``inner``, which feeds this pass, as the source of its state from now on."""
        if self.inner is not None and self.inner() is inner:
            return
        self.inner = self.watch.inner = ref = weakref.ref(inner)
        read = self.watch.reader_of(inner)
        if self.kind is IterKind.WRAPPED and getattr(inner, "_num_workers", None) == 0:
            self.kind = IterKind.IN_PROCESS
        self.read = lambda _: read(alive) if (alive := ref()) is not None else nothing_to_read(None)

    def _is_told_by_another(self, iterator: Any) -> bool:
        on_main = threading.get_ident() == self.recorder.thread
        for outer in self.watch.outers:
            if outer is self or outer.ended is not None:
                continue
            if not on_main:
                return True  # a thread reads ahead, and the outer pass gives the batches to the loop
            if outer.waits:
                outer.read_from(iterator)
                return True
        return False

    def request(self, iterator: Any, now: int) -> None:
        """Note that ``next(loader)`` was entered at ``now``: the previous step ends and a wait begins."""
        if self.watch.outers and self._is_told_by_another(iterator):
            self.silent = True
            return
        if not self.opened:
            self.open()
        recorder = self.recorder
        recorder.cool()
        on_main = threading.get_ident() == recorder.thread
        depth = recorder.outer_waits(own=1) if on_main else 0
        worked_ns = recorder.pause(now, self) if on_main and not depth else None
        if self.delivered_ns:
            self._end_step(now, worked_ns)
        if self.ended is not None:
            if self.ended not in (EndedBy.ERROR, EndedBy.WORKER_DIED):
                return  # another ``next`` on an exhausted pass gives nothing new to record
            self.ended = None
        self.ready, self.cached, self.awaited = self.read(iterator)
        self.wait_since_ns = now
        if not on_main:
            self.reader = self.reader or ThreadReader(self, recorder.ahead)
            self.reader.asks(now)
        else:
            self.reader = None
            self._depth = depth
            recorder.depth = depth + 1
        if on_main and not depth:
            if self.awaited == ENDING:
                self.publish(Phase.TEARDOWN, now, self.batch + 1)
            else:
                self.publish(Phase.WAIT, now, self.batch + 1, self.awaited)
        if self.gpu is not None and not depth and on_main:
            self.gpu.request()
        # Read the clock if no batch is ready or the previous wait was long. UNKNOWN does not count as 0.
        self.cpu_ns = thread_time_ns() if self.armed or self.ready == 0 else 0

    def deliver(self) -> None:
        """Note that the batch was delivered: the wait ends and a step begins."""
        if self.silent or self.ended is not None or not self.opened:
            self.silent = False
            return  # another pass records this batch, or this pass was detached during the wait
        cpu_ns = thread_time_ns() if self.cpu_ns else 0
        now = monotonic_ns()
        recorder = self.recorder
        recorder.cool()
        wait_ns = now - self.wait_since_ns
        self.wait_ns = wait_ns
        self.wait_cpu_ns = cpu_ns - self.cpu_ns if cpu_ns else UNKNOWN
        self.armed = wait_ns > CPU_CLOCK_ABOVE_NS
        self.batch += 1
        self.delivered_ns = now
        if not self._begun:
            self._write_begin(wait_ns)
        self.settle()
        if self.reader is not None:
            self.in_loop = False
            self.reader.gets(now)
            return
        recorder.depth = self._depth
        self.in_loop = not self._depth
        if self._depth:
            return
        recorder.since_ns = now
        self._added = recorder.goes_on_with(self)
        self.publish(Phase.STEP, now, self.batch)
        if self.gpu is not None:
            self.gpu.deliver(self.loader, self.number, self.batch, self.wait_since_ns)
        if len(recorder.open_steps) == 1:
            self._go_live()  # no other loader has an open step that would contain this loader's waits

    def _go_live(self) -> None:
        recorder = self.recorder
        recorder.live = self
        self.memory = recorder.ring.memory
        self.step_ahead = self.watch.batches - self.batch
        self.cpu_ns = 0
        self.thread = recorder.thread

    def fail(self, error: BaseException) -> None:
        """Note that ``next`` raised: the epoch is exhausted, or the user's code failed."""
        if self.silent or self.ended is not None or not self.opened:
            self.silent = False
            return
        teardown_ns = monotonic_ns() - self.wait_since_ns
        self.recorder.cool()
        if self.reader is not None:
            whole = isinstance(error, StopIteration)
            self.reader.leaves(None if whole else error, whole=whole)
        else:
            self.recorder.depth = self._depth
            if not self._depth:
                self.recorder.since_ns = monotonic_ns()
        self.end(ended_by(error), self.wait_since_ns, teardown_ns)

    def end(self, ended_by: EndedBy, request_ns: int, teardown_ns: int) -> None:
        """Record the end of the epoch.

        Args:
            ended_by: how the epoch ended.
            request_ns: when the end began.
            teardown_ns: how long the end took; ``UNKNOWN`` if the end was not seen.
        """
        if self.ended is not None:
            return
        recorder = self.recorder
        recorder.cool()
        if self.reader is not None:
            self.reader.leaves()
        watch = self.watch
        for passes in (watch.passes, watch.outers):
            if self in passes:
                passes.remove(self)
        if not self.opened:
            self.ended = ended_by
            if not recorder.depth:
                recorder.publish_outer(monotonic_ns())
            return
        if self.delivered_ns:
            if teardown_ns == UNKNOWN:
                self._end_step(UNKNOWN, 0 if recorder.latest is self else None)
            else:
                worked_ns = recorder.pause(request_ns, self) if self.in_loop else None
                recorder.since_ns += teardown_ns * self.in_loop
                self._end_step(request_ns, worked_ns)
        if not self._begun:
            self._write_begin(UNKNOWN)
        self.ended = ended_by
        self.settle()
        if self.gpu is not None and threading.get_ident() == recorder.thread:
            self.gpu.read()
        now = watch.left_ns = monotonic_ns()
        watch.ended_ns = now if teardown_ns != UNKNOWN else UNKNOWN
        if self in recorder.open_steps:
            recorder.open_steps.remove(self)
        recorder.together.clear()
        recorder.ring.append(
            RecordKind.EPOCH_END,
            loader=self.loader,
            epoch=self.number,
            request_ns=request_ns,
            teardown_ns=teardown_ns,
            batches=self.batch + 1,
            ended_by=ended_by,
        )
        recorder.publish_outer(now)

    def work(self, ns: int, phases: PhaseClock | None) -> None:
        """Add ``ns`` of the loop's work with this pass's batch, and the phases counted in that time."""
        self.work_ns += ns
        if phases is None:
            return
        # Only if the clock counted something, because each ``take`` ends a step of the clock.
        if phases.forward_ns or phases.backward_ns or phases.steps_finished != self.recorder.steps_taken:
            self._take(phases)

    def _take(self, phases: PhaseClock) -> None:
        self._counted = phases.take() if self._counted is None else add_phases(self._counted, phases.take())
        self.recorder.steps_taken = phases.steps_finished

    def _end_step(self, now: int, worked_ns: int | None) -> None:
        """Write the record of the ending step.

        Args:
            now: when the step ended; ``UNKNOWN`` if the end was not seen.
            worked_ns: how long the loop has just worked with this batch; None if it worked with another one.
                If it is not None, the phases that the clock counted belong to this step.
        """
        recorder = self.recorder
        whole_ns = now - self.delivered_ns
        work_ns = self.work_ns + (worked_ns or 0) if self.in_loop else 0
        read_by, wait_ns, wait_cpu_ns = ReadBy.LOOP, self.wait_ns, self.wait_cpu_ns
        if self.reader is not None and now != UNKNOWN:
            read_by, wait_ns, work_ns = self.reader.told(now, wait_ns)
            whole_ns, wait_cpu_ns = work_ns, min(wait_cpu_ns, wait_ns)
        self.delivered_ns = 0
        phases = self.phases
        if phases is not None and read_by is not ReadBy.AHEAD and (worked_ns is not None or not self.in_loop):
            self._take(phases)
        counted = self._counted
        if counted is None:
            no_step = self._added or ((phases is not None or worked_ns is None) and recorder.counts_optimizer)
            counted = NO_STEP if no_step else NOT_TIMED
        h2d, forward, backward, optimizer, optimizer_steps, collective = counted
        if self._added and not recorder.counts_optimizer:
            optimizer_steps = 0  # without a watched optimizer, the step counts for the batch that began it
        self.work_ns, self._counted = 0, None
        recorder.ring.append(
            RecordKind.STEP,
            loader=self.loader,
            epoch=self.number,
            batch=self.batch,
            step=self.step(),
            request_ns=self.wait_since_ns,
            wait_ns=wait_ns,
            wait_cpu_ns=wait_cpu_ns,
            ready=self.ready,
            cached=self.cached,
            awaited_worker=self.awaited,
            step_ns=work_ns if now != UNKNOWN else UNKNOWN,
            h2d_ns=h2d,
            forward_ns=forward,
            backward_ns=backward,
            optimizer_ns=optimizer,
            nested_ns=whole_ns - work_ns if now != UNKNOWN else UNKNOWN,
            off_main_thread=read_by,
            optimizer_steps=optimizer_steps,
            collective_ns=collective,
        )
        self.settle()
        if self._added:
            self._added = False
            recorder.count_steps(-1)

    def _write_begin(self, first_wait_ns: int) -> None:
        self._begun = True
        self.recorder.open_steps.append(self)
        self.recorder.ring.append(
            RecordKind.EPOCH_BEGIN,
            loader=self.loader,
            epoch=self.number,
            request_ns=self.request_ns,
            iter_ns=self.iter_ns,
            iter_cpu_ns=self.iter_cpu_ns,
            sampler_ns=self.watch.sampler_ns,
            first_wait_ns=first_wait_ns,
            iter_kind=self.kind,
            workers=self.workers,
            drained=self.drained,
            gap_ns=self.gap_ns,
        )
