"""The hooks on the model and the optimizer, which time the phases of a step.

- H2D is the time from a batch's delivery to the model's first call in that step, if the model's input tensors
  are not in host memory. It covers the copy to the device and anything else that the loop does before that
  call. PyTorch has no public hook on copies.
- Forward is the outermost module's call with gradients enabled (``timed_calls``).
- Backward begins when the first gradient reaches the model's output; the loss's own part lies before that. It
  ends when the autograd engine calls back.
- Optimizer is ``optimizer.step()`` without a closure's time in the model, from its forward to its backward.

The hook on the output must be set again in every step and costs more than all others together. So only one
step in ``LOOK_EVERY`` has it, and the first one after ``LOOK_WITHIN_NS``. Such a step measures how long the
gradients take from the output to the last parameter, which keeps a hook. In the other steps, backward began
that long before the last parameter's gradient, but not before the end of forward. If the parameter has no
part in the loss, or is sharded, its hook never runs. Then every step has the hook on the output.

In a DDP model, two parts of the phases are DDP's own collectives, where a rank waits for the others. With
gloo the thread waits, with NCCL the GPU. The first part lasts from DDP's call to the call of the module
inside it, while DDP broadcasts buffers. The second part lasts from the end of the backward pass to an engine
callback after DDP's own, which waits for the gradients.

Kernels run after the call that launches them. Where a device times the loader's waits, closely examined steps
have the same boundaries marked on the device.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from itertools import islice
from typing import Any, Final

import torch
from torch import Tensor, is_grad_enabled
from torch.autograd import Variable

from loaderwatch.agent.guard import ask, guard, shield
from loaderwatch.agent.hot import DeviceClock, PhaseClock
from loaderwatch.agent.hot.layout import Part
from loaderwatch.agent.loader_description import synced_buffers
from loaderwatch.agent.model.compilers import Hook
from loaderwatch.agent.model.timed_calls import TimedCalls
from loaderwatch.agent.recorder import LoaderlessLoop, Recorder
from loaderwatch.core.clock import monotonic_ns

_engine_calls_back: Final[Callable[[Callable[[], None]], None] | None] = ask(
    lambda: Variable._execution_engine.queue_callback
)
"""Registers a callback for the end of the backward pass: private to PyTorch; if None, backward is unknown."""
MAX_PARTS: Final = 32
"""How many parts of a model's output are searched for a tensor with a gradient."""
MAX_CALLS_NOTED: Final = 32
"""For how many model calls in closely examined steps the script's line is noted. Later calls repeat lines."""
MAX_WRAPPERS: Final = 4
"""How many nested wrappers around an optimizer are searched."""


class StepHooks(PhaseClock):
    """The hooks on a model and its optimizer, and the clock that they write to."""

    def __init__(self, recorder: Recorder, note_call: Callable[[], None] = lambda: None) -> None:
        """Begin without a model; ``note_call`` notes the place of a model's call, for some of the calls."""
        super().__init__(
            recorder.ring.memory, Tensor, is_grad_enabled, _engine_calls_back or _nothing, guard.note
        )
        self.recorder = recorder
        self.models: weakref.WeakSet[Any] = weakref.WeakSet()
        # The models given to ``attach``. If there are any, no others are searched.
        self.given_models: weakref.WeakSet[Any] = weakref.WeakSet()
        self.given_optimizer = False
        self.given = False  # whether a model or an optimizer was given
        self._note_call = shield(note_call)
        self._calls_to_note = MAX_CALLS_NOTED
        self._handles: list[Any] = []
        self._calls = TimedCalls(self)
        self._optimizer_handles: list[Any] = []
        self._optimizer_hooks: list[Hook] = []
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._gradient_hook = Hook(self.gradient_came)
        self._hooks = [self._gradient_hook]

    def give_model(self, model: Any) -> None:
        """Watch the model that ``attach`` was given; models that were found are no longer watched."""
        if not self.given_models:
            self.forget_models()
        self.given = True
        self.given_models.add(model)
        self.watch_model(model)

    def give_optimizer(self, optimizer: Any) -> None:
        """Watch the optimizer that ``attach`` was given; its steps are the training's."""
        self.given = self.given_optimizer = True
        self.watch_optimizer(optimizer)

    def watch_model(self, model: Any) -> None:
        """Time the outermost module's calls; watching it twice is a no-op."""
        if model in self.models:
            return
        self.models.add(model)
        if self._calls.add(model):
            self._tell_of_calls()
        else:
            self._handles.append(model.register_forward_pre_hook(self._hook(self.forward_began)))
            self._handles.append(model.register_forward_hook(self._hook(self.forward_ended)))
        last = next((tensor for tensor in reversed(list(model.parameters())) if tensor.requires_grad), None)
        if last is not None and _engine_calls_back is not None:
            self._handles.append(last.register_post_accumulate_grad_hook(self._hook(self.parameter_came)))
        buffers = synced_buffers(model)
        if buffers is not None:
            self.exchanges = True
        if buffers and not hasattr(model, "_orig_mod"):  # in a compiled model, the hook would enter the graph
            came = self._hook(shield(self.buffers_came))
            self._handles.append(model.module.register_forward_pre_hook(came))
        self.has_model = True

    def watch_called(self, module: Any, inputs: tuple[Any, ...]) -> None:
        """Watch a module during its call with these arguments; a hook of the search noticed the call."""
        self.watch_model(module)
        self.forward_began(module, inputs)

        def ended(*arguments: Any) -> None:
            handle.remove()
            self.forward_ended(*arguments)

        handle = module.register_forward_hook(self._hook(ended))
        self._handles.append(handle)

    def follow(self, loop: LoaderlessLoop) -> None:
        """Report the model's calls to a loaderless loop from now on."""
        self.recorder.step_loop = loop
        self._tell_of_calls()

    def _tell_of_calls(self) -> None:
        loop = self.recorder.step_loop
        self._calls.tell_first(loop.model_called if loop is not None else None)

    def watch_optimizer(self, optimizer: Any) -> None:
        """Hook ``step`` of the optimizer inside any frameworks' wrappers; hooking it twice is a no-op."""
        layer, inner = optimizer, None
        # A wrapper may be an Optimizer by name only (accelerate's); the innermost one makes the steps.
        for _ in range(MAX_WRAPPERS):
            if hasattr(layer, "register_step_pre_hook"):
                inner = layer
            layer = getattr(layer, "optimizer", None)
        if inner is None or inner in self._optimizers:
            return
        self._optimizers.add(inner)
        began, ended = Hook(self.optimizer_began), Hook(self.optimizer_ended)
        self._optimizer_hooks += began, ended
        self._optimizer_handles.append(inner.register_step_pre_hook(began))
        self._optimizer_handles.append(inner.register_step_post_hook(ended))
        self.has_optimizer = True
        self.recorder.cool()
        self.recorder.count_optimizer(self)

    def count_steps(self, from_the_first: bool, before: int = 0) -> None:
        """Count the steps of an optimizer, found in the middle of a step, as the training's.

        Args:
            from_the_first: no batch was read before, so the count begins at ``before``; else it goes on.
            before: steps that this optimizer made before it was known to train.
        """
        recorder = self.recorder
        recorder.cool()
        if from_the_first:
            recorder.count_steps(before - recorder.steps)
        latest = recorder.latest
        if from_the_first or latest is None:
            self.steps_finished = before
        else:
            self.steps_finished = max(0, latest.step() - 1)
        self.has_optimizer = True
        recorder.count_optimizer(self)
        recorder.publish_outer(monotonic_ns())

    def forget_models(self) -> None:
        """Remove the hooks on the models, and silence the hooks that copies of the models have."""
        self._calls.remove()
        for handle in self._handles:
            handle.remove()
        for hook in self._hooks:
            hook.silence()
        self._handles.clear()
        self._gradient_hook = Hook(self.gradient_came)
        self._hooks = [self._gradient_hook]
        self.models.clear()
        self.has_model = False

    def remove(self) -> None:
        """Remove all hooks."""
        self.forget_models()
        self._gradient_hook.silence()
        for handle in self._optimizer_handles:
            handle.remove()
        for hook in self._optimizer_hooks:
            hook.silence()
        self._optimizers.clear()
        self.given_models.clear()
        self.memory = None
        self.recorder.cool()
        self.recorder.count_optimizer(None)

    def moved(self, inputs: tuple[Any, ...]) -> None:
        """Note a step's first forward pass. If its input is on a device, the copy has ended by now."""
        if _on_device(inputs):
            self.launches(Part.FORWARD)
            steps = self.recorder.open_steps
            if steps and steps[-1].delivered_ns:
                self.h2d_ns = self.forward_since - steps[-1].delivered_ns

    def look_at_output(self, module: Any, output: Any) -> None:
        """Time backward from the first gradient at the model's output; note the place of the first calls."""
        if self._calls_to_note:
            self._calls_to_note -= 1
            self._note_call()
        if _engine_calls_back is None:
            self.blind_backward = True  # nothing would report the end of backward
            return
        self.launches(Part.OTHER)
        tensor = output if type(output) is torch.Tensor else _first_tensor(output)
        node = tensor.grad_fn if tensor is not None else None
        if node is not None:
            node.register_prehook(self._gradient_hook)  # costs half as much as a hook on the tensor
        elif tensor is not None and tensor.requires_grad:
            tensor.register_hook(self._gradient_hook)
        elif module.training and any(parameter.requires_grad for parameter in module.parameters()):
            self.blind_backward = True

    def buffers_came(self, *_: Any) -> None:
        """Note that DDP calls the module inside it; until now it broadcast buffers."""
        if self.forward_since and self.forward_depth == 1:
            self.collective_ns += monotonic_ns() - self.forward_since

    def launches(self, part: int) -> None:
        """Mark on the device's clock that the loop launches this part's work from now on."""
        clock = self._device_clock()
        if clock is not None:
            clock.mark(part)

    def _device_clock(self) -> DeviceClock | None:
        """Return the clock of the device that times this step; None unless the step is closely examined."""
        steps = self.recorder.open_steps
        return steps[-1].gpu if steps and not self.until_look else None

    def _hook(self, function: Callable[..., None]) -> Hook:
        hook = Hook(function)
        self._hooks.append(hook)
        return hook


def _nothing(_: Callable[[], None]) -> None:
    pass


def _on_device(inputs: tuple[Any, ...]) -> bool:
    """Whether the first tensor among the model's arguments is outside host memory."""
    for argument in inputs:
        if isinstance(argument, torch.Tensor):
            return not argument.is_cpu
    return False


def _first_tensor(output: Any) -> Any:
    """Return the first tensor with a gradient in a model's output; None if a bounded search finds none."""
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
