"""The recorder: the ring of a training process, its counters over all loaders, and its current activity."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from loaderwatch.agent.hot import nexts_on_the_stack
from loaderwatch.agent.prefetch_thread_waits import ReadAhead
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.ring import RingWriter
from loaderwatch.core.ring.span import PHASE_NAME_WORD, SINCE_WORDS, STEP_FOLLOWS, STEPS_FOLLOW

if TYPE_CHECKING:
    from loaderwatch.agent.hot import DeviceClock, PhaseClock

_OUTSIDE: Final = SINCE_WORDS[Phase.OUTSIDE]
_USER: Final = SINCE_WORDS[Phase.USER]


class OpenStep(Protocol):
    """A pass over a loader whose batch was delivered and whose step has not ended."""

    delivered_ns: int
    batch: int
    # Delivered to the training loop itself: in the training thread, not inside ``next`` of another pass.
    in_loop: bool
    phases: PhaseClock | None
    gpu: DeviceClock | None

    @property
    def trains(self) -> bool:
        """Whether this pass's batches are training steps. Batches of an evaluation are not."""

    def step(self) -> int:
        """Return the step's number."""

    def work(self, ns: int, phases: PhaseClock | None) -> None:
        """Add ``ns`` of the loop's work with this pass's batch, and the phases counted in that time."""

    def publish(self, phase: Phase, since_ns: int, batch: int) -> None:
        """Publish this pass as the process's current activity."""

    def settle(self) -> None:
        """Add this pass's new batches and steps to the recorder's totals."""

    def cool(self) -> None:
        """Leave the hot path."""


class OpenPhase(Protocol):
    """A ``loaderwatch.phase`` that was entered and not yet left."""

    name: int
    since_ns: int


class LoaderlessLoop(Protocol):
    """A training loop without a known loader."""

    def step_ended(self) -> None:
        """Note that the leading optimizer has stepped."""

    def other_step_ended(self) -> None:
        """Note that another optimizer has stepped."""

    def goes_on(self) -> None:
        """Note that the script does something other than waiting for a batch."""

    @property
    def model_called(self) -> Callable[..., None]:
        """Called before each call of the model."""

    def close(self) -> None:
        """End the loop."""


class Recorder:
    """The ring of a training process and the totals over all its loaders.

    The training thread writes. Iterators that run in other threads also write, under the GIL.

    At most one pass is *live*: the last one to publish the open span's place. It is usually on the hot path.
    Then its counts enter the totals when these are read (``settle``) or on another publication (``cool``).
    """

    __slots__ = (
        "_optimizer",
        "_steps",
        "ahead",
        "batches",
        "depth",
        "live",
        "open_phases",
        "open_steps",
        "ring",
        "since_ns",
        "step_loop",
        "steps_taken",
        "thread",
        "together",
    )

    def __init__(self, ring: RingWriter) -> None:
        self.ring = ring
        self.thread = threading.get_ident()
        self.ahead = ReadAhead(self.thread, self._in_next)
        self.batches = 0  # batches delivered by all loaders
        self._steps = 0  # training steps that ended before an optimizer was watched
        self._optimizer: PhaseClock | None = None
        self.depth = 0  # how many next() calls of watched loaders are on the training thread's stack
        self.live: OpenStep | None = None
        self.open_steps: list[OpenStep] = []  # passes in the order of their newest batches
        self.together: list[OpenStep] = []  # passes whose newest batches belong to the current step
        self.since_ns = 0  # the time before this already belongs to steps
        self.steps_taken = 0  # optimizer steps that records contain or will contain
        self.open_phases: list[OpenPhase] = []
        self.step_loop: LoaderlessLoop | None = None

    @property
    def steps(self) -> int:
        """Training steps so far: optimizer steps if one is watched, else ended steps with training batches.

        The count continues when an optimizer is found.
        """
        return self._steps if self._optimizer is None else self._optimizer.steps

    @property
    def counts_optimizer(self) -> bool:
        """Whether ``steps`` counts the optimizer's steps."""
        return self._optimizer is not None

    def count_steps(self, ended: int) -> None:
        """Add ended steps with batches of training loaders."""
        self._steps += ended

    def count_optimizer(self, clock: PhaseClock | None) -> None:
        """Count this clock's optimizer steps as ``steps`` from now on; with None, count ended steps."""
        self._steps = self.steps
        self._optimizer = clock
        if clock is not None:
            clock.steps = self._steps

    def outer_waits(self, own: int) -> int:
        """Return ``depth`` for the training thread, before a call of ``next`` counts itself.

        An interrupt in our code may leave ``depth`` too high. Then nothing would be published anymore. So if
        ``depth`` says that there are outer calls, the calls on the stack are counted.

        Args:
            own: how many of the calls on the stack are the caller's own.
        """
        if self.depth and threading.get_ident() == self.thread:
            self.depth = nexts_on_the_stack() - own
        return self.depth

    def moves_to(self, thread: int, *, first: bool) -> bool:
        """Make this thread, which steps an optimizer, the training thread if it is; return whether it now is.

        A thread that reads a loader trains. So does the main thread, if this is the ``first`` optimizer:
        recording then began in a thread that reads ahead, because that thread used a loader first.
        """
        if not self.ahead.is_read_by(thread) and not (first and thread == threading.main_thread().ident):
            return False
        self.cool()
        self.thread, self.depth = thread, 0
        self.ahead.move(thread)
        return True

    def _in_next(self) -> bool:
        return self.depth > 0 or (self.live is not None and not self.live.delivered_ns)

    def mute(self) -> None:
        """Write nothing from now on: this is a forked child, and the ring belongs to the parent."""
        self.cool()
        self.ring.mute()

    def settle(self) -> None:
        """Add the live pass's counts to the totals."""
        if self.live is not None:
            self.live.settle()

    def cool(self) -> None:
        """Take the live pass off the hot path: other code is about to publish or to read the totals."""
        live, self.live = self.live, None
        if live is not None:
            live.cool()

    def publish(
        self,
        phase: Phase,
        since_ns: int,
        loader: int = UNKNOWN,
        epoch: int = UNKNOWN,
        batch: int = UNKNOWN,
        step: int = UNKNOWN,
        awaited_worker: int = UNKNOWN,
        *,
        step_follows: bool = True,
        steps_follow: bool = True,
    ) -> None:
        """Publish the process's current activity and its begin.

        ``step_follows``: the step is a number of batches; ``steps_follow``: batches are training steps.
        """
        self.ring.set_span(
            phase,
            since_ns,
            loader,
            epoch,
            batch,
            step,
            awaited_worker,
            batches=self.batches,
            steps=self.steps,
            follows=STEP_FOLLOWS * step_follows + STEPS_FOLLOW * (steps_follow and not self.counts_optimizer),
        )

    @property
    def latest(self) -> OpenStep | None:
        """The open step whose batch was delivered last. The loop works with this batch."""
        for open_step in reversed(self.open_steps):
            if open_step.delivered_ns and open_step.in_loop:
                return open_step
        return None

    def pause(self, now: int, asking: OpenStep | None) -> int | None:
        """Count the loop's work until ``now`` for a step: the loop now waits or asks for an iterator.

        If the loop takes batches from several loaders, each moment belongs to the step of the loader that
        delivered last. So the steps of all loaders add up to the elapsed time.

        Args:
            now: monotonic nanoseconds.
            asking: the pass whose step ends now; None if no step ends.

        Returns:
            how long the loop has just worked with the batch of ``asking``; None if with another batch.
        """
        latest = self.latest
        since_ns = self.since_ns
        if latest is not None and latest.delivered_ns > since_ns:
            since_ns = latest.delivered_ns
        worked_ns = now - since_ns
        if worked_ns < 0:
            worked_ns = 0
        else:
            self.since_ns = now
        if latest is asking:
            return worked_ns if latest is not None else None
        if latest is not None:
            clock = next((step.phases for step in self.open_steps if step.phases is not None), None)
            latest.work(worked_ns, clock)
        return None

    def goes_on_with(self, one: OpenStep) -> bool:
        """Note a batch for the loop; return whether it belongs to a step that another pass's batch began.

        A step has at most one batch of each pass. So in a ``zip`` of three loaders, the first of each three
        batches begins a step. Batches of an evaluation belong to no step.
        """
        steps, together = self.open_steps, self.together
        if not steps or steps[-1] is not one:
            if one in steps:
                steps.remove(one)
            steps.append(one)
        if one in together:
            if len(together) > 1:
                together[:] = [one]
            return False
        begun = any(other.trains for other in together)
        together.append(one)
        return one.trains and begun

    def publish_outer(self, now: int) -> None:
        """Publish the activity around the span that has just ended, and the activity's begin."""
        self.cool()
        outer = self.latest
        if outer is None:
            self.publish(Phase.OUTSIDE, self.open_phases[-1].since_ns if self.open_phases else now)
        else:
            outer.publish(Phase.STEP, outer.delivered_ns, outer.batch)
        if self.open_phases:
            self._show(self.open_phases[-1])

    def script_over(self, now: int) -> None:
        """Note that the script has ended: from now on, time outside of all loops is the process's end."""
        words = self.ring.words
        if words[_OUTSIDE] != UNKNOWN:
            words[_OUTSIDE] = now

    def enter_phase(self, phase: OpenPhase) -> None:
        """Note that a user phase began."""
        self.open_phases.append(phase)
        self._show(phase)

    def leave_phase(self, phase: OpenPhase, now: int) -> None:
        """Note that a user phase ended; publish the phase around it, or else the time outside."""
        if phase not in self.open_phases:
            return
        self.open_phases.remove(phase)
        words = self.ring.words
        if self.open_phases:
            self._show(self.open_phases[-1])
            return
        words[_USER] = UNKNOWN
        if words[_OUTSIDE] != UNKNOWN:
            words[_OUTSIDE] = now

    def _show(self, phase: OpenPhase) -> None:
        words = self.ring.words
        words[PHASE_NAME_WORD] = phase.name
        words[_USER] = phase.since_ns
