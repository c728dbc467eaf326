"""Phases of a step, by PyTorch's public hooks on the model and the optimizer that ``attach`` was given.

H2D is the time from a batch's delivery to the model's first call in that step, when the model is handed tensors that do
not lie in the host's memory: the copy to the device, and whatever else the loop does before that call. PyTorch has no
public hook on copies. Forward is the outermost module's call with gradients enabled. Backward begins when the first gradient reaches the
model's output (the loss's own part lies before that; in very short steps, when it reaches the last parameter) and ends
when the autograd engine calls back. Optimizer is
``optimizer.step()`` less what a closure spends in the model.

In a DDP model two stretches of these are its own collectives, and there a rank waits for the others (with gloo; with NCCL
the GPU waits, not the thread): from DDP's call to that of the module inside it, where buffers are sent around, and from the
end of the backward pass to what the engine calls after DDP's own callback, which waits for the gradients.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import Variable

from loaderwatch.agent.describe import synced_buffers
from loaderwatch.agent.guard import ask, guard, shield
from loaderwatch.agent.hook import Hook
from loaderwatch.agent.recorder import Recorder
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, Phase
from loaderwatch.core.span import SINCE_WORDS, STEPS_WORD

MAX_PARTS: Final = 32
"""Parts of a model's output that are looked through for a tensor with a gradient."""


SHORT_STEP_NS: Final = 1_000_000
"""Model time of a step below which backward is timed from the last parameter's gradient on.

The hook on the model's output has to be set anew in every step, about 7 µs in all. Below a millisecond of model time
that is more than the loss's own part of backward, which is what the cheaper hook misses.
"""

_is_compiling: Final = torch.compiler.is_dynamo_compiling
"""Asked first thing in the model's hooks: to torch.compile they are empty, and the user's graph stays whole."""
_FORWARD: Final = SINCE_WORDS[Phase.FORWARD]
_BACKWARD: Final = SINCE_WORDS[Phase.BACKWARD]
_OPTIMIZER: Final = SINCE_WORDS[Phase.OPTIMIZER]


class StepHooks:
    """What the hooks on a model and its optimizer have timed, added up until ``take``."""

    __slots__ = (
        "_handles",
        "_hooked",
        "_hooks",
        "backward_ns",
        "backward_since",
        "blind_backward",
        "collective_ns",
        "computed_at",
        "exchanges",
        "forward_depth",
        "forward_ns",
        "forward_since",
        "gradient_came",
        "h2d_ns",
        "has_model",
        "has_optimizer",
        "has_parameter_hook",
        "model_ns_before",
        "optimizer_ns",
        "optimizer_since",
        "optimizer_steps",
        "recorder",
        "saw_forward",
        "short_steps",
        "steps_finished",
    )

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._handles: list[Any] = []
        self._hooked: weakref.WeakSet[Any] = weakref.WeakSet()
        self.has_model = False
        self.has_optimizer = False
        self.has_parameter_hook = False
        self.steps_finished = 0
        self.short_steps = False
        self.saw_forward = False  # never, when the model runs compiled: hooks are not traced
        self.exchanges = False  # the model is DDP's
        self.gradient_came = Hook(_backward_hook(self))
        self._hooks = [self.gradient_came]
        self.h2d_ns = UNKNOWN
        self.forward_ns = self.backward_ns = self.optimizer_ns = self.optimizer_steps = self.collective_ns = 0
        self.forward_depth = self.forward_since = self.backward_since = self.optimizer_since = 0
        self.computed_at = 0
        self.model_ns_before = 0
        self.blind_backward = False  # an output without a tensor that could tell of backward

    def watch_model(self, model: Any) -> None:
        """Hook the outermost module; a second time is a no-op."""
        if model in self._hooked:
            return
        self._hooked.add(model)
        began, ended, buffers_came = _forward_hooks(self)
        self._handles.append(model.register_forward_pre_hook(self._hook(began)))
        self._handles.append(model.register_forward_hook(self._hook(ended)))
        last = next((one for one in reversed(list(model.parameters())) if one.requires_grad), None)
        if last is not None:
            self._handles.append(last.register_post_accumulate_grad_hook(self.gradient_came))
            self.has_parameter_hook = True
        buffers = synced_buffers(model)
        if buffers is not None:
            self.exchanges = True
        if buffers and not hasattr(model, "_orig_mod"):  # of a compiled one it would be in the graph
            self._handles.append(model.module.register_forward_pre_hook(self._hook(buffers_came)))
        self.has_model = True

    def watch_optimizer(self, optimizer: Any) -> None:
        """Hook ``step`` of the optimizer, or of the one inside a framework's wrapper; a second time is a no-op."""
        inner = optimizer
        while not hasattr(inner, "register_step_pre_hook") and hasattr(inner, "optimizer"):
            inner = inner.optimizer
        if not hasattr(inner, "register_step_pre_hook") or inner in self._hooked:
            return
        self._hooked.add(inner)
        began, ended = _optimizer_hooks(self)
        self._handles.append(inner.register_step_pre_hook(self._hook(began)))
        self._handles.append(inner.register_step_post_hook(self._hook(ended)))
        self.has_optimizer = True
        self.recorder.cool()
        self.recorder.counts_optimizer = True

    def _hook(self, function: Callable[..., None]) -> Hook:
        hook = Hook(function)
        self._hooks.append(hook)
        return hook

    def remove(self) -> None:
        """Take the hooks out, and silence those that copies of the model have kept."""
        for handle in self._handles:
            handle.remove()
        for hook in self._hooks:
            hook.silence()
        self._handles.clear()
        self._hooked.clear()
        self.recorder.cool()
        self.recorder.counts_optimizer = False

    def step(self) -> int | None:
        """Optimizer steps finished so far; None when no optimizer is watched."""
        return self.steps_finished if self.has_optimizer else None

    def take(self) -> tuple[int, int, int, int, int, int]:
        """Since the last call: h2d, forward, backward, optimizer in ns, optimizer steps, collectives in ns."""
        forward, backward, optimizer = self.forward_ns, self.backward_ns, self.optimizer_ns
        self.short_steps = self.has_parameter_hook and 0 < forward + backward + optimizer < SHORT_STEP_NS
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
        self.blind_backward = False
        return h2d, forward, backward, optimizer, optimizer_steps, collective


# Of each hook its lines are in one frame with the guard's seam, for a call costs more than they do (see hot.py).


def _forward_hooks(hooks: StepHooks) -> tuple[Callable[..., None], Callable[..., None], Callable[..., None]]:
    words = hooks.recorder.ring.words

    def began(module: Any, inputs: Any) -> None:
        if _is_compiling():
            return
        try:
            hooks.forward_depth = depth = hooks.forward_depth + 1
            if depth != 1 or not is_grad_enabled() or hooks.backward_since:
                return
            words[_FORWARD] = hooks.forward_since = now = monotonic_ns()
            hooks.saw_forward = True
            first = inputs[0] if inputs else None
            if type(first) is Tensor and first.is_cpu:
                return  # said here for what it costs: the usual case without a device
            if not hooks.forward_ns and _on_device(inputs):
                steps = hooks.recorder.open_steps
                if steps and steps[-1].delivered_ns:
                    hooks.h2d_ns = now - steps[-1].delivered_ns
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)

    def ended(module: Any, inputs: Any, output: Any) -> None:
        if _is_compiling():
            return
        try:
            depth = hooks.forward_depth
            if depth > 0:
                hooks.forward_depth = depth = depth - 1
            since = hooks.forward_since
            if depth or not since:
                return
            hooks.forward_ns += monotonic_ns() - since
            hooks.forward_since = 0
            words[_FORWARD] = UNKNOWN
            if not hooks.short_steps:
                _hook_output(hooks, module, output)
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)

    def buffers_came(module: Any, inputs: Any) -> None:
        if _is_compiling():
            return
        if hooks.forward_since and hooks.forward_depth == 1:
            hooks.collective_ns += monotonic_ns() - hooks.forward_since

    return began, ended, shield(buffers_came)


def _hook_output(hooks: StepHooks, module: Any, output: Any) -> None:
    tensor = output if type(output) is torch.Tensor else _first_tensor(output)
    node = tensor.grad_fn if tensor is not None else None
    if node is not None:
        node.register_prehook(hooks.gradient_came)  # half the price of a hook on the tensor
    elif tensor is not None and tensor.requires_grad:
        tensor.register_hook(hooks.gradient_came)
    elif module.training:
        hooks.blind_backward = True


def _backward_hook(hooks: StepHooks) -> Callable[..., None]:
    words = hooks.recorder.ring.words
    # What DDP and FSDP use to act at the end of a backward pass.
    queue_callback = Variable._execution_engine.queue_callback

    def gradient_came(gradient: Any) -> None:
        try:
            if not hooks.backward_since:
                queue_callback(ended)
                words[_BACKWARD] = hooks.backward_since = monotonic_ns()
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)

    def ended() -> None:
        try:
            since = hooks.backward_since
            if not since:
                return
            now = monotonic_ns()
            if hooks.exchanges:
                if not hooks.computed_at:
                    hooks.computed_at = now
                    # Callbacks run in order: behind the one in which DDP waits for the gradients of the other ranks.
                    queue_callback(ended)
                    return
                hooks.collective_ns += now - hooks.computed_at
                hooks.computed_at = 0
            hooks.backward_ns += now - since
            hooks.backward_since = 0
            words[_BACKWARD] = UNKNOWN
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)

    return gradient_came


def _optimizer_hooks(hooks: StepHooks) -> tuple[Callable[..., None], Callable[..., None]]:
    words = hooks.recorder.ring.words

    def began(*_: Any) -> None:
        if _is_compiling():
            return
        try:
            if not hooks.optimizer_since:
                hooks.model_ns_before = hooks.forward_ns + hooks.backward_ns
                words[_OPTIMIZER] = hooks.optimizer_since = monotonic_ns()
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)

    def ended(*_: Any) -> None:
        if _is_compiling():
            return
        try:
            since = hooks.optimizer_since
            if not since:
                return
            inside = hooks.forward_ns + hooks.backward_ns - hooks.model_ns_before  # a closure's
            hooks.optimizer_ns += monotonic_ns() - since - inside
            hooks.optimizer_since = 0
            hooks.optimizer_steps += 1
            hooks.steps_finished += 1
            recorder = hooks.recorder
            recorder.steps = steps = recorder.steps + 1
            words[STEPS_WORD] = steps
            words[_OPTIMIZER] = UNKNOWN
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)

    return began, ended


def _on_device(inputs: tuple[Any, ...]) -> bool:
    """Whether the first tensor among the model's arguments lies elsewhere than in the host's memory."""
    for one in inputs:
        if isinstance(one, torch.Tensor):
            return not one.is_cpu
    return False


def _first_tensor(output: Any) -> Any:
    """The first tensor with a gradient in a model's output; None if a bounded look finds none."""
    parts = [output]
    for _ in range(MAX_PARTS):
        if not parts:
            break
        part = parts.pop(0)
        if isinstance(part, torch.Tensor):
            if part.requires_grad:
                return part
        elif isinstance(part, dict):
            parts.extend(islice(part.values(), MAX_PARTS))
        elif isinstance(part, (list, tuple)):
            parts.extend(part[:MAX_PARTS])
        elif hasattr(part, "__dataclass_fields__"):
            parts.extend(ask(lambda part=part: list(vars(part).values())) or ())  # type: ignore[misc]
    return None
