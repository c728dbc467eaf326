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
from torch.autograd import Variable

from loaderwatch.agent.describe import synced_buffers
from loaderwatch.agent.guard import ask, shield
from loaderwatch.agent.hook import Hook
from loaderwatch.agent.recorder import Recorder
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import UNKNOWN, Phase

MAX_PARTS: Final = 32
"""Parts of a model's output that are looked through for a tensor with a gradient."""


SHORT_STEP_NS: Final = 1_000_000
"""Model time of a step below which backward is timed from the last parameter's gradient on.

The hook on the model's output has to be set anew in every step, about 7 µs in all. Below a millisecond of model time
that is more than the loss's own part of backward, which is what the cheaper hook misses.
"""

_is_compiling: Final = torch.compiler.is_compiling
"""Asked first thing in the model's hooks: to torch.compile they are empty, and the user's graph stays whole."""
_FORWARD: Final = int(Phase.FORWARD)
_BACKWARD: Final = int(Phase.BACKWARD)
_OPTIMIZER: Final = int(Phase.OPTIMIZER)


class StepHooks:
    """Times forward, backward and optimizer; adds up until ``take``."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._handles: list[Any] = []
        self._hooked: weakref.WeakSet[Any] = weakref.WeakSet()
        self.has_model = False
        self.has_optimizer = False
        self.steps_finished = 0
        self._has_parameter_hook = False
        self._short_steps = False
        self._saw_forward = False  # never, when the model runs compiled: hooks are not traced
        self._blind_backward = False  # an output without a tensor that could tell of backward
        self._exchanges = False  # the model is DDP's
        self._h2d_ns = UNKNOWN
        self._forward_ns = 0
        self._backward_ns = 0
        self._optimizer_ns = 0
        self._optimizer_steps = 0
        self._collective_ns = 0
        self._computed_at = 0
        self._forward_depth = 0
        self._forward_since = 0
        self._backward_since = 0
        self._optimizer_since = 0
        self._model_ns_before = 0
        self._node_hook = Hook(self._backward_began)
        self._hooks = [self._node_hook]
        self._engine_callback = shield(self._backward_ended)

    def watch_model(self, model: Any) -> None:
        """Hook the outermost module; a second time is a no-op."""
        if model in self._hooked:
            return
        self._hooked.add(model)
        self._handles.append(model.register_forward_pre_hook(self._hook(self._forward_began)))
        self._handles.append(model.register_forward_hook(self._hook(self._forward_ended)))
        last = next((one for one in reversed(list(model.parameters())) if one.requires_grad), None)
        if last is not None:
            self._handles.append(last.register_post_accumulate_grad_hook(self._node_hook))
            self._has_parameter_hook = True
        buffers = synced_buffers(model)
        if buffers is not None:
            self._exchanges = True
        if buffers and not hasattr(model, "_orig_mod"):  # of a compiled one it would be in the graph
            self._handles.append(model.module.register_forward_pre_hook(self._hook(self._buffers_came)))
        self.has_model = True

    def watch_optimizer(self, optimizer: Any) -> None:
        """Hook ``step`` of the optimizer, or of the one inside a framework's wrapper; a second time is a no-op."""
        inner = optimizer
        while not hasattr(inner, "register_step_pre_hook") and hasattr(inner, "optimizer"):
            inner = inner.optimizer
        if not hasattr(inner, "register_step_pre_hook") or inner in self._hooked:
            return
        self._hooked.add(inner)
        self._handles.append(inner.register_step_pre_hook(self._hook(self._optimizer_began)))
        self._handles.append(inner.register_step_post_hook(self._hook(self._optimizer_ended)))
        self.has_optimizer = True
        self._recorder.counts_optimizer = True

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
        self._recorder.counts_optimizer = False

    def step(self) -> int | None:
        """Optimizer steps finished so far; None when no optimizer is watched."""
        return self.steps_finished if self.has_optimizer else None

    def take(self) -> tuple[int, int, int, int, int, int]:
        """Since the last call: h2d, forward, backward, optimizer in ns, optimizer steps, collectives in ns."""
        self._short_steps = (
            self._has_parameter_hook
            and 0 < self._forward_ns + self._backward_ns + self._optimizer_ns < SHORT_STEP_NS
        )
        modelled = self.has_model and self._saw_forward
        taken = (
            self._h2d_ns,
            self._forward_ns if modelled else UNKNOWN,
            self._backward_ns if modelled and not self._blind_backward else UNKNOWN,
            self._optimizer_ns if self.has_optimizer else UNKNOWN,
            self._optimizer_steps if self.has_optimizer else UNKNOWN,
            self._collective_ns if self._exchanges and modelled else UNKNOWN,
        )
        self._h2d_ns = UNKNOWN
        self._forward_ns = self._backward_ns = self._optimizer_ns = self._optimizer_steps = 0
        # what an exception in the user's code left open
        self._forward_depth = self._forward_since = self._backward_since = self._optimizer_since = 0
        self._collective_ns = self._computed_at = 0
        self._blind_backward = False
        return taken

    def _forward_began(self, module: Any, inputs: Any) -> None:
        if _is_compiling():
            return
        self._forward_depth += 1
        if self._forward_depth == 1 and torch.is_grad_enabled() and not self._backward_since:
            self._saw_forward = True
            self._forward_since = now = self._recorder.publish_inner(_FORWARD)
            if not self._forward_ns and _on_device(inputs):
                steps = self._recorder.open_steps
                if steps and steps[-1].delivered_ns:
                    self._h2d_ns = now - steps[-1].delivered_ns

    def _buffers_came(self, module: Any, inputs: Any) -> None:
        if _is_compiling():
            return
        if self._forward_since and self._forward_depth == 1:
            self._collective_ns += monotonic_ns() - self._forward_since

    def _forward_ended(self, module: Any, inputs: Any, output: Any) -> None:
        if _is_compiling():
            return
        if self._forward_depth > 0:
            self._forward_depth -= 1
        since = self._forward_since
        if self._forward_depth or not since:
            return
        now = monotonic_ns()
        self._forward_since = 0
        self._forward_ns += now - since
        self._recorder.publish_outer(now)
        if self._short_steps:
            return
        tensor = output if type(output) is torch.Tensor else _first_tensor(output)
        node = tensor.grad_fn if tensor is not None else None
        if node is not None:
            node.register_prehook(self._node_hook)  # half the price of a hook on the tensor
        elif tensor is not None and tensor.requires_grad:
            tensor.register_hook(self._node_hook)
        elif module.training:
            self._blind_backward = True

    def _backward_began(self, gradient: Any) -> None:
        if self._backward_since:
            return
        # What DDP and FSDP use to act at the end of a backward pass.
        Variable._execution_engine.queue_callback(self._engine_callback)
        self._backward_since = self._recorder.publish_inner(_BACKWARD)

    def _backward_ended(self) -> None:
        since = self._backward_since
        if not since:
            return
        now = monotonic_ns()
        if self._exchanges:
            if not self._computed_at:
                self._computed_at = now
                # Callbacks run in order: behind the one in which DDP waits for the gradients of the other ranks.
                Variable._execution_engine.queue_callback(self._engine_callback)
                return
            self._collective_ns += now - self._computed_at
            self._computed_at = 0
        self._backward_since = 0
        self._backward_ns += now - since
        self._recorder.publish_outer(now)

    def _optimizer_began(self, *_: Any) -> None:
        if _is_compiling():
            return
        if not self._optimizer_since:
            self._model_ns_before = self._forward_ns + self._backward_ns
            self._optimizer_since = self._recorder.publish_inner(_OPTIMIZER)

    def _optimizer_ended(self, *_: Any) -> None:
        if _is_compiling():
            return
        since = self._optimizer_since
        if not since:
            return
        now = monotonic_ns()
        self._optimizer_since = 0
        inside = self._forward_ns + self._backward_ns - self._model_ns_before  # a closure's
        self._optimizer_ns += now - since - inside
        self._optimizer_steps += 1
        self.steps_finished += 1
        self._recorder.steps += 1
        self._recorder.publish_outer(now)


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
