"""A training loop without a loader that is known: its batches are what lies between two steps of the optimizer.

A generator, a replay buffer, tensors that are sliced by hand: there is no object whose ``next`` could be timed. What is there are
the optimizer's steps and the model's calls. From the end of a step until the model is called again the model has nothing to do:
that is the wait of such a loop, for a batch as a rule; a stack says what the script does there.

Nobody sees such a loop end. So between two steps the process is outside of any loop, where a script may also serve, save or be
over; it is judged as such, by where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

from torch import is_grad_enabled

from loaderwatch.agent.accelerator import device_clock
from loaderwatch.agent.guard import shield
from loaderwatch.agent.loaders.epoch import Epoch
from loaderwatch.agent.loaders.watch import Watch
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, EndedBy, Phase

MEMORY: Final = 16
"""Gaps between two steps that are remembered, to tell what is done in most of them from what is done now and then."""

MANY_CALLS: Final = 16
"""Calls of the model without gradients between two steps: an agent acts so, and an evaluation by hand reads as many batches."""
SOME_CALLS: Final = 4
"""The same where it comes ``MEMORY`` times in a row; a teacher's pass and a second view are fewer."""


class StepLoop:
    """Times the loop between the optimizer's steps and the model's calls."""

    def __init__(self, watch: Watch, note_acting: Callable[[], None] = lambda: None) -> None:
        """Begin with a watch that nobody else has; ``note_acting`` is called once, when the model is seen to act."""
        watch.refresh()
        if watch.gpu is None:
            watch.gpu = device_clock(watch.recorder.ring)
        self._pass = _Pass(watch, watch.recorder)
        self._between = False  # a step has ended, and the model was not called to train since
        self._steps = UNKNOWN  # of the optimizer, so far
        self._came_ns = 0  # when the script went on to something that is no wait, in that time; 0: it has not
        self._aside_ratio = 0.0  # of the last ``MEMORY`` gaps, those in which the script did something else
        self._backward_ns = (
            0  # what the present step has spent in backward, as of the model's last call to train
        )
        self._other_ns = 0  # when another optimizer last stepped
        self._paused = (
            False  # it did, and the model was not called since: it may have been the last of the loop's
        )
        self._blind = True  # no call of the model is seen: hooks do not run in it, or it is not known yet
        self._calls = 0  # of the model without gradients, since the last step
        self._acted = 0  # gaps in a row in which there were some
        self._note_acting: Callable[[], None] | None = note_acting
        self.model_called = shield(self._model_called)

    def step_ended(self) -> None:
        """Note that the leading optimizer has stepped."""
        one, recorder = self._pass, self._pass.recorder
        if get_ident() != recorder.thread or recorder.outer_waits(own=0):
            return
        steps = one.phases.steps_finished if one.phases is not None else UNKNOWN
        if steps == self._steps != UNKNOWN:  # a subclass's step, which has called its parent's
            self.other_step_ended()
            return
        self._steps = steps
        if self._between:
            self._blind = True
            self._begin(one.wait_since_ns)
        self._acted = self._acted + 1 if self._calls >= SOME_CALLS else 0
        if self._acted >= MEMORY:
            self._acts()
        one.request(None, monotonic_ns())
        recorder.depth = 0  # no ``next`` is on the stack
        self._between, self._paused, self._came_ns, self._calls = True, False, 0, 0
        if self._blind:
            self._begin(one.wait_since_ns)

    def other_step_ended(self) -> None:
        """Note that another optimizer has stepped: until now the script has not come to the next batch."""
        recorder = self._pass.recorder
        if get_ident() != recorder.thread:
            return
        self._other_ns = now = monotonic_ns()
        if not self._between:
            self._paused = True
            recorder.cool()
            recorder.publish(Phase.OUTSIDE, now)
        elif not self._came_ns:
            self._pass.wait_since_ns = now

    def goes_on(self) -> None:
        """Note that the script does something else than to wait for a batch, such as an evaluation.

        What it does in most gaps is no such thing: an agent that acts calls the model as well, to make its next batch.
        """
        if self._between and not self._came_ns and get_ident() == self._pass.recorder.thread:
            self._came_ns = monotonic_ns()

    def _model_called(self, *_: Any) -> None:
        if get_ident() != self._pass.recorder.thread:
            return
        if not is_grad_enabled():
            self.goes_on()
            self._calls += 1
            if self._calls >= MANY_CALLS:
                self._acts()
            return
        self._blind = False
        if self._between:
            self._begin(self._came_ns if self._aside_ratio < 0.5 else 0)
        else:
            self._take_micro_batch()

    def _acts(self) -> None:
        """Say that the model acts, once."""
        if self._note_acting is not None:
            note, self._note_acting = self._note_acting, None
            note()

    def _take_micro_batch(self) -> None:
        """Add to the step's wait what has passed since backward, where gradients of several batches are accumulated in it."""
        one = self._pass
        clock = one.phases
        if self._paused:
            self._paused = False
            one.publish(Phase.STEP, one.delivered_ns, one.batch)
        if clock is None or not one.delivered_ns or clock.backward_ns <= self._backward_ns:
            return
        self._backward_ns = clock.backward_ns
        gap_ns = max(0, monotonic_ns() - max(clock.model_ended_at, self._other_ns))
        one.wait_ns += gap_ns
        one.delivered_ns += gap_ns
        one.recorder.since_ns += gap_ns

    def _begin(self, at_ns: int) -> None:
        """Begin a step, as of a moment that has passed; 0: now."""
        one, recorder = self._pass, self._pass.recorder
        since_ns = recorder.since_ns
        one.deliver()
        self._between, self._backward_ns = False, 0
        self._aside_ratio += (bool(self._came_ns) - self._aside_ratio) / MEMORY
        if at_ns:
            one.wait_ns, one.wait_cpu_ns = at_ns - one.wait_since_ns, UNKNOWN
            one.delivered_ns = at_ns
            recorder.since_ns = max(at_ns, since_ns)  # less where another loader was read meanwhile

    def close(self) -> None:
        """End the loop: the script trains from a loader that is known, after all."""
        self._between = False
        self._pass.end(EndedBy.BREAK, monotonic_ns(), UNKNOWN)


class _Pass(Epoch):
    """The one pass of such a loop, which nobody sees wait."""

    __slots__ = ()

    @property
    def waits(self) -> bool:
        """Whether somebody is inside ``next`` of this pass."""
        return False

    def publish(self, phase: Phase, since_ns: int, batch: int, awaited: int = UNKNOWN) -> None:
        """Publish this pass as what the process is doing now; between two steps it is outside of any loop."""
        if phase is Phase.WAIT:
            self.recorder.publish(Phase.OUTSIDE, since_ns)
        else:
            super().publish(phase, since_ns, batch, awaited)
