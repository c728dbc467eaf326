"""The phases of a step."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic_ns
from typing import Any, Final, TypeAlias

from loaderwatch.agent.hot.layout import BACKWARD, FORWARD, LOOK_EVERY, OPTIMIZER, InSpan
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import Memory
from loaderwatch.core.span import STEPS_WORD

Phases: TypeAlias = tuple[int, int, int, int, int, int]
"""What ``PhaseClock.take`` gives: h2d, forward, backward, optimizer in ns, optimizer steps, collectives in ns."""
NOT_TIMED: Final[Phases] = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
NO_STEP: Final[Phases] = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0, UNKNOWN)
"""Nothing was timed, and the optimizer made no step."""


def add_phases(one: Phases, other: Phases) -> Phases:
    """Their sum; what only one of them knows is as that one says."""
    h2d, forward, backward, optimizer, steps, collective = (
        max(mine, more) if UNKNOWN in (mine, more) else mine + more
        for mine, more in zip(one, other, strict=True)
    )
    return h2d, forward, backward, optimizer, steps, collective


class PhaseClock(InSpan):
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
        self.parameter_tells = False  # of backward: it got a gradient when that was looked at last
        self.model_ended_at = 0  # the last pass through it, forward or backward
        # from the first gradient at the model's output to that of the last parameter:
        self._in_head = False
        self.head_ns = 0  # the lesser of the last two
        self._last_head_ns: float = inf

    def moved(self, inputs: tuple[Any, ...]) -> None:
        """The step's first forward pass began, and its first input is no plain tensor in the host's memory."""

    def look_at_output(self, module: Any, output: Any) -> None:
        """A forward pass ended in a step that is looked at."""

    def take(self) -> Phases:
        """What was timed since the last call."""
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
            self._words[FORWARD] = self.forward_since = monotonic_ns()
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
            self._words[FORWARD] = UNKNOWN
            if not (self.parameter_tells and self.until_look):
                self.look_at_output(module, output)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def gradient_came(self, *_: Any) -> None:
        """A gradient reached the model's output: the first begins the backward pass."""
        try:
            if not self.backward_since:
                self._queue_callback(self.backward_ended)
                self._words[BACKWARD] = self.backward_since = monotonic_ns()
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
                self._words[BACKWARD] = self.backward_since = since
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
            if 0 < self.optimizer_since < self.model_ended_at:
                self.model_ns_before -= (
                    since - self.model_ended_at
                )  # the closure's: the loss, between the passes
            self.model_ended_at = now
            self._words[BACKWARD] = UNKNOWN
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def optimizer_began(self, *_: Any) -> None:
        """``optimizer.step()`` was called."""
        if not self.optimizer_since:
            self.model_ns_before = self.forward_ns + self.backward_ns
            self._words[OPTIMIZER] = self.optimizer_since = monotonic_ns()

    def optimizer_ended(self, *_: Any) -> None:
        """It returned."""
        if self._optimizer_over():
            self.optimizer_steps += 1
            self.steps_finished += 1
            words = self._words
            words[STEPS_WORD] = self.steps = self.steps + 1
            words[OPTIMIZER] = UNKNOWN

    def other_optimizer_ended(self, *_: Any) -> None:
        """The ``step`` of one returned whose steps are not the training's: a second optimizer of the same loop."""
        if self._optimizer_over():
            self._words[OPTIMIZER] = UNKNOWN

    def _optimizer_over(self) -> bool:
        since = self.optimizer_since
        if not since:
            return False
        inside = self.forward_ns + self.backward_ns - self.model_ns_before  # a closure's
        self.optimizer_ns += monotonic_ns() - since - inside
        self.optimizer_since = 0
        return True
