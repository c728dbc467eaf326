"""The clock of a step's phases (forward, backward, optimizer), in Python."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from time import monotonic_ns
from typing import Any, Final, TypeAlias

from loaderwatch.agent.hot.layout import (
    BACKWARD,
    FORWARD,
    LOOK_EVERY,
    LOOK_WITHIN_NS,
    OPTIMIZER,
    InSpan,
    Part,
)
from loaderwatch.core.records import UNKNOWN
from loaderwatch.core.ring import Memory
from loaderwatch.core.ring.span import STEPS_WORD

Phases: TypeAlias = tuple[int, int, int, int, int, int]
"""h2d, forward, backward and optimizer in ns, the number of optimizer steps, and collectives in ns."""
NOT_TIMED: Final[Phases] = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
NO_STEP: Final[Phases] = (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, 0, UNKNOWN)
"""The phases of a step without timed phases and without an optimizer step."""


def add_phases(one: Phases, other: Phases) -> Phases:
    """Add two sets of phases. If only one set knows a number, the sum is that number."""
    h2d, forward, backward, optimizer, steps, collective = (
        max(value, addend) if UNKNOWN in (value, addend) else value + addend
        for value, addend in zip(one, other, strict=True)
    )
    return h2d, forward, backward, optimizer, steps, collective


class PhaseClock(InSpan):
    """Sums the phases of a step, as hooks report them, until ``take``. Times are monotonic nanoseconds.

    ``memory`` is the ring's memory or None, and ``tensor`` is the class of plain tensors. ``is_grad_enabled``
    is PyTorch's function. ``queue_callback`` is the autograd engine's: DDP and FSDP use it to act at the end
    of a backward pass. ``note`` receives an error in our code, and re-raises it if it is not our fault.
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
        self.steps = 0  # steps_finished plus the steps before the optimizer was watched
        self.saw_forward = False  # stays False for a compiled model, in which hooks do not run
        self.exchanges = False  # the model is wrapped in DDP and exchanges gradients
        self.h2d_ns = UNKNOWN
        self.forward_ns = self.backward_ns = self.optimizer_ns = self.optimizer_steps = self.collective_ns = 0
        self.forward_depth = self.forward_since = self.backward_since = self.optimizer_since = 0
        self.computed_at = 0
        self.model_ns_before = 0
        self.blind_backward = False  # no tensor of the output shows when backward begins
        self.until_look = 0  # steps until the next closely observed one; 0: this one
        self.looked_ns = monotonic_ns()  # end of the last closely observed step
        self.on_host = False  # the input was in host memory in the last closely observed step
        self.parameter_tells = False  # the last parameter got a gradient in that step
        self.model_ended_at = 0  # end of the last pass through the model, forward or backward
        # The head: time from the first gradient at the model's output to the last parameter's gradient.
        self._in_head = False
        self.head_ns = 0  # the shorter of the last two heads
        self._last_head_ns: float = inf

    def moved(self, inputs: tuple[Any, ...]) -> None:
        """Find the input's device: the first forward pass begins, and its input is no plain host tensor."""

    def look_at_output(self, module: Any, output: Any) -> None:
        """Hook the model's output at the end of a forward pass in a closely observed step."""

    def launches(self, part: int) -> None:
        """Note that the loop now begins to launch this ``Part``, in a closely observed step."""
        raise NotImplementedError

    def take(self) -> Phases:
        """Return the phases since the last call."""
        forward, backward, optimizer = self.forward_ns, self.backward_ns, self.optimizer_ns
        if self.parameter_tells and self.until_look and forward and not backward:
            self.parameter_tells, self.blind_backward = False, True  # the parameter got no gradient this time
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
        # Close the phases that an exception in the user's code left open.
        self.forward_depth = self.forward_since = self.backward_since = self.optimizer_since = 0
        self.computed_at = 0
        self._in_head = False
        now = monotonic_ns()
        if not self.until_look:
            self.until_look = LOOK_EVERY - 1
            self.looked_ns = now
        else:
            self.until_look = self.until_look - 1 if now - self.looked_ns < LOOK_WITHIN_NS else 0
        if not (self.until_look and self.parameter_tells):
            self.blind_backward = False
        return h2d, forward, backward, optimizer, optimizer_steps, collective

    def forward_began(self, module: Any, inputs: Any) -> None:
        """Note that the outermost module was called; ``inputs`` are the positional arguments."""
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
        """Note that the outermost module returned."""
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

    def forward_failed(self) -> None:
        """Note that the outermost module raised an error. The user's code may catch it."""
        if self.forward_depth > 0:
            self.forward_depth -= 1
            if not self.forward_depth:
                self.forward_since = 0

    def gradient_came(self, *_: Any) -> None:
        """Note that a gradient reached the model's output: the first gradient begins the backward pass."""
        try:
            if not self.backward_since:
                self._queue_callback(self.backward_ended)
                self._words[BACKWARD] = self.backward_since = monotonic_ns()
                self._in_head = True
                self.parameter_tells = False
                self._tell(Part.BACKWARD)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def parameter_came(self, *_: Any) -> None:
        """Note the last parameter's gradient. With no output hook, backward began ``head_ns`` earlier."""
        try:
            since = self.backward_since
            if not since:
                self._queue_callback(self.backward_ended)
                since = max(monotonic_ns() - self.head_ns, self.model_ended_at)
                self._words[BACKWARD] = self.backward_since = since
            elif self._in_head:
                head = monotonic_ns() - since
                # The head of the first step does not count.
                self.parameter_tells = self._last_head_ns != inf
                self.head_ns = int(min(head, self._last_head_ns))
                self._last_head_ns = head
                self._in_head = False
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def backward_ended(self) -> None:
        """Note the end of a backward pass; the autograd engine calls this."""
        try:
            since = self.backward_since
            if not since:
                return
            now = monotonic_ns()
            if self.exchanges:
                if not self.computed_at:
                    self.computed_at = now
                    # Callbacks run in order: this one follows DDP's, which waits for other ranks' gradients.
                    self._queue_callback(self.backward_ended)
                    self._tell(Part.OTHER)
                    return
                self.collective_ns += now - self.computed_at
                self.computed_at = 0
            self.backward_ns += now - since
            self.backward_since = 0
            self._in_head = False
            if 0 < self.optimizer_since < self.model_ended_at:
                # The closure computes the loss between the two passes.
                self.model_ns_before -= since - self.model_ended_at
            self.model_ended_at = now
            self._words[BACKWARD] = UNKNOWN
            if not self.exchanges:
                self._tell(Part.OTHER)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def optimizer_began(self, *_: Any) -> None:
        """Note that ``optimizer.step()`` was called."""
        if not self.optimizer_since:
            self.model_ns_before = self.forward_ns + self.backward_ns
            self._words[OPTIMIZER] = self.optimizer_since = monotonic_ns()
            self._tell(Part.OPTIMIZER)

    def optimizer_ended(self, *_: Any) -> None:
        """Note that ``optimizer.step()`` returned."""
        if self._optimizer_over():
            self.optimizer_steps += 1
            self.steps_finished += 1
            words = self._words
            words[STEPS_WORD] = self.steps = self.steps + 1
            words[OPTIMIZER] = UNKNOWN
            self._tell(Part.OTHER)

    def other_optimizer_ended(self, *_: Any) -> None:
        """Note that ``step`` of the loop's second optimizer returned. It is not a training step."""
        if self._optimizer_over():
            self._words[OPTIMIZER] = UNKNOWN
            self._tell(Part.OTHER)

    def _tell(self, part: Part) -> None:
        if self.until_look:
            return
        try:
            self.launches(part)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            self._note(fault)

    def _optimizer_over(self) -> bool:
        since = self.optimizer_since
        if not since:
            return False
        closure_model_ns = self.forward_ns + self.backward_ns - self.model_ns_before
        self.optimizer_ns += monotonic_ns() - since - closure_model_ns
        self.optimizer_since = 0
        return True
