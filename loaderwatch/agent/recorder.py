"""The recorder: what this training process has counted so far, and what it is doing now."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

from loaderwatch.agent.hot import nexts_on_the_stack
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.ring import RingWriter
from loaderwatch.core.span import PHASE_NAME_WORD, SINCE_WORDS, STEP_FOLLOWS, STEPS_FOLLOW

if TYPE_CHECKING:
    from loaderwatch.agent.hot import PhaseClock

_OUTSIDE: Final = SINCE_WORDS[Phase.OUTSIDE]
_USER: Final = SINCE_WORDS[Phase.USER]


class OpenStep(Protocol):
    """A pass over a loader: its batch was delivered, and the step has not ended."""

    delivered_ns: int
    batch: int
    in_loop: bool  # delivered to the training loop itself: in the training thread, and not inside another pass's ``next``
    phases: PhaseClock | None

    @property
    def trains(self) -> bool:
        """Whether its batches are steps of the training; an evaluation's are not."""

    def step(self) -> int:
        """The step's number."""

    def work(self, ns: int, phases: PhaseClock | None) -> None:
        """The loop worked for so long with the batch that this pass delivered, during which ``phases`` counted."""

    def publish(self, phase: Phase, since_ns: int, batch: int) -> None:
        """Say that this is what goes on."""

    def settle(self) -> None:
        """Bring the recorder's totals up to date."""

    def cool(self) -> None:
        """Leave the hot path."""


class OpenPhase(Protocol):
    """A ``loaderwatch.phase`` that was entered and not left."""

    name: int
    since_ns: int


class Recorder:
    """The ring of a training process and the totals over all its loaders.

    Written by the training thread; iterators that run in other threads write too, under the GIL.

    At most one pass is *live*: it published the place of the open span last, and while nothing special goes on it is on
    the hot path, where the totals wait until somebody asks (``settle``) or publishes something else (``cool``).
    """

    __slots__ = (
        "_optimizer",
        "_steps",
        "batches",
        "depth",
        "live",
        "open_phases",
        "open_steps",
        "ring",
        "since_ns",
        "steps_taken",
        "thread",
        "together",
    )

    def __init__(self, ring: RingWriter) -> None:
        self.ring = ring
        self.thread = threading.get_ident()
        self.batches = 0  # delivered, all loaders
        self._steps = 0  # that ended, up to when an optimizer was watched
        self._optimizer: PhaseClock | None = None
        self.depth = 0  # next() calls of watched loaders that the training thread is inside of
        self.live: OpenStep | None = None
        self.open_steps: list[OpenStep] = []  # in the order of their newest batches
        self.together: list[OpenStep] = []  # whose newest batches the loop took for one step
        self.since_ns = 0  # no step has anything of the time before
        self.steps_taken = 0  # of the optimizer, that some record holds or will
        self.open_phases: list[OpenPhase] = []

    @property
    def steps(self) -> int:
        """Training steps: the optimizer's if one is watched, else those with batches of training loaders that ended.

        They count on when that changes.
        """
        return self._steps if self._optimizer is None else self._optimizer.steps

    @property
    def counts_optimizer(self) -> bool:
        """Whether the steps are the optimizer's."""
        return self._optimizer is not None

    def count_steps(self, ended: int) -> None:
        """So many steps with batches of training loaders ended."""
        self._steps += ended

    def count_optimizer(self, clock: PhaseClock | None) -> None:
        """From now on ``steps`` are those of this clock; None: those that end."""
        self._steps = self.steps
        self._optimizer = clock
        if clock is not None:
            clock.steps = self._steps

    def outer_waits(self, own: int) -> int:
        """``depth`` for the training thread, before a call of ``next`` counts itself.

        An interrupt in the middle of our lines may have left it too high, and then nothing would be published any more. So
        where there seem to be outer ones, the stack is asked.

        Args:
            own: how many of the calls on the stack are the one that asks.
        """
        if self.depth and threading.get_ident() == self.thread:
            self.depth = nexts_on_the_stack() - own
        return self.depth

    def mute(self) -> None:
        """Write nowhere from now on: this is a forked child, and the ring is the parent's."""
        self.cool()
        self.ring.mute()

    def settle(self) -> None:
        """Bring the totals up to date."""
        if self.live is not None:
            self.live.settle()

    def cool(self) -> None:
        """Something else than the live pass is about to publish, or to ask what goes on."""
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
        """Say what goes on since when.

        ``step_follows``: the step is a number of batches; ``steps_follow``: the batches are steps of the training.
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
        """The pass whose batch came last, of those whose step is open: the one that the loop works with."""
        for one in reversed(self.open_steps):
            if one.delivered_ns and one.in_loop:
                return one
        return None

    def pause(self, now: int, asking: OpenStep | None) -> int | None:
        """The loop stands still from ``now`` on, as it waits or asks for an iterator.

        Where it takes batches from several loaders, a moment belongs to the step of the one that delivered last; then the steps
        of all of them add up to the time that there was.

        Args:
            now: monotonic nanoseconds.
            asking: the pass whose step ends by that; None: no step ends.

        Returns:
            how long the loop worked with the batch of ``asking`` until now; None: it did not.
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
            clock = next((one.phases for one in self.open_steps if one.phases is not None), None)
            latest.work(worked_ns, clock)
        return None

    def goes_on_with(self, one: OpenStep) -> bool:
        """The loop has a batch of this pass; whether it takes it for the step that it has begun with another's.

        A step has one batch of each pass at most, so each in a ``zip`` of three begins every third of them. What an
        evaluation takes is part of no step.
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
        """Something inside ended: say what goes on around it since when."""
        self.cool()
        outer = self.latest
        if outer is None:
            self.publish(Phase.OUTSIDE, self.open_phases[-1].since_ns if self.open_phases else now)
        else:
            outer.publish(Phase.STEP, outer.delivered_ns, outer.batch)
        if self.open_phases:
            self._show(self.open_phases[-1])

    def enter_phase(self, phase: OpenPhase) -> None:
        """A user's phase began."""
        self.open_phases.append(phase)
        self._show(phase)

    def leave_phase(self, phase: OpenPhase, now: int) -> None:
        """It ended: the one around it goes on, or what began before them."""
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
