"""A training loop without a known loader: one batch for each step of the optimizer.

With a generator, a replay buffer or tensors sliced by hand, no object has a ``next`` that could be timed.
Only the optimizer's steps and the model's calls are visible. From the end of a step to the next call, the
model has nothing to do. This time is the loop's wait, usually for a batch. A stack shows the code that runs.

The end of such a loop is not visible. So between two steps the process counts as outside of any loop: there a
script may also serve, save or be over. Stacks decide how that time is judged.
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
"""Remembered gaps between two steps: shows which activity is in most gaps and which only now and then."""

MANY_CALLS: Final = 16
"""Model calls without gradients in one gap that mean acting (RL agents) or an evaluation written by hand."""
SOME_CALLS: Final = 4
"""The limit if ``MEMORY`` gaps in a row reach it. A teacher's pass or a second view makes fewer calls."""


class StepLoop:
    """Times the loop between the optimizer's steps and the model's calls."""

    def __init__(self, watch: Watch, note_acting: Callable[[], None] = lambda: None) -> None:
        """Begin with a watch of its own; ``note_acting`` is called once, when the model is seen to act."""
        watch.refresh()
        if watch.gpu is None:
            watch.gpu = device_clock(watch.recorder.ring)
        self._pass = _Pass(watch, watch.recorder)
        self._between = False  # a step has ended, and no training call of the model has followed
        self._steps = UNKNOWN  # optimizer steps so far
        self._came_ns = 0  # when the script began something other than waiting in this gap; 0: not yet
        self._aside_ratio = 0.0  # share of the last ``MEMORY`` gaps in which the script did something else
        self._backward_ns = 0  # backward time of the current step, at the model's last training call
        self._other_ns = 0  # when another optimizer last stepped
        self._paused = False  # another optimizer stepped and no model call followed: perhaps the loop is over
        self._blind = True  # no model call is seen: hooks do not run in the model, or it is unknown
        self._calls = 0  # model calls without gradients since the last step
        self._acted = 0  # gaps in a row with at least ``SOME_CALLS`` such calls
        self._note_acting: Callable[[], None] | None = note_acting
        self.model_called = shield(self._model_called)

    def step_ended(self) -> None:
        """Note that the leading optimizer has stepped."""
        loop_pass, recorder = self._pass, self._pass.recorder
        if get_ident() != recorder.thread or recorder.outer_waits(own=0):
            return
        steps = loop_pass.phases.steps_finished if loop_pass.phases is not None else UNKNOWN
        if steps == self._steps != UNKNOWN:  # a subclass's step that called its parent's step
            self.other_step_ended()
            return
        self._steps = steps
        if self._between:
            self._blind = True
            self._begin(loop_pass.wait_since_ns)
        self._acted = self._acted + 1 if self._calls >= SOME_CALLS else 0
        if self._acted >= MEMORY:
            self._acts()
        loop_pass.request(None, monotonic_ns())
        recorder.depth = 0  # no ``next`` is on the stack
        self._between, self._paused, self._came_ns, self._calls = True, False, 0, 0
        if self._blind:
            self._begin(loop_pass.wait_since_ns)

    def other_step_ended(self) -> None:
        """Note that another optimizer has stepped: the script has not begun the next batch yet."""
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
        """Note that the script does something other than waiting for a batch, such as an evaluation.

        An activity in most gaps does not count: an acting agent also calls the model, for its next batch.
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
        """Report once that the model acts."""
        if self._note_acting is not None:
            note, self._note_acting = self._note_acting, None
            note()

    def _take_micro_batch(self) -> None:
        """With gradient accumulation, add the time since the last backward pass to the step's wait."""
        loop_pass = self._pass
        clock = loop_pass.phases
        if self._paused:
            self._paused = False
            loop_pass.publish(Phase.STEP, loop_pass.delivered_ns, loop_pass.batch)
        if clock is None or not loop_pass.delivered_ns or clock.backward_ns <= self._backward_ns:
            return
        self._backward_ns = clock.backward_ns
        gap_ns = max(0, monotonic_ns() - max(clock.model_ended_at, self._other_ns))
        loop_pass.wait_ns += gap_ns
        loop_pass.delivered_ns += gap_ns
        loop_pass.recorder.since_ns += gap_ns

    def _begin(self, at_ns: int) -> None:
        """Begin a step at this past moment; 0: now."""
        loop_pass, recorder = self._pass, self._pass.recorder
        since_ns = recorder.since_ns
        loop_pass.deliver()
        self._between, self._backward_ns = False, 0
        self._aside_ratio += (bool(self._came_ns) - self._aside_ratio) / MEMORY
        if at_ns:
            loop_pass.wait_ns, loop_pass.wait_cpu_ns = at_ns - loop_pass.wait_since_ns, UNKNOWN
            loop_pass.delivered_ns = at_ns
            recorder.since_ns = max(at_ns, since_ns)  # since_ns is later if another loader was read meanwhile

    def close(self) -> None:
        """End the loop: the script does train from a known loader."""
        self._between = False
        self._pass.end(EndedBy.BREAK, monotonic_ns(), UNKNOWN)


class _Pass(Epoch):
    """The only pass of a loop without a loader. It has no visible ``next``."""

    __slots__ = ()

    @property
    def waits(self) -> bool:
        """Always false: this pass has no ``next``."""
        return False

    def publish(self, phase: Phase, since_ns: int, batch: int, awaited: int = UNKNOWN) -> None:
        """Publish this pass as the process's current activity; between two steps, publish OUTSIDE."""
        if phase is Phase.WAIT:
            self.recorder.publish(Phase.OUTSIDE, since_ns)
        else:
            super().publish(phase, since_ns, batch, awaited)
