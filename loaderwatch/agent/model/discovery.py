"""Discovery of the models and optimizers that train, where ``attach`` was not given them.

PyTorch calls its global hooks around each optimizer's ``step``. The leading optimizer is the first that steps
while a batch of a training loader is worked on; its steps are the training's. Of other optimizers (a GAN's
second) only the time is recorded.

An optimizer's models are the modules that hold its parameters. The outermost module that is *called* is
timed: a wrapper may hold a model that other code calls (Lightning's ``training_step``, one module for encoder
and head). So the outermost modules get a hook for some steps. Where such a module is not called, the modules
inside it get hooks, too. A module that is called with gradients, and not from inside a timed one, is then
timed. When the search ends, all other hooks are removed.

PyTorch's global hooks on modules would find the models sooner. But they print a warning to callers of a
compiled module, and code that was compiled with the hooks is recompiled when they are removed.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any, Final

import torch
from torch import is_grad_enabled
from torch.nn import Module
from torch.optim import optimizer as optimizers

from loaderwatch.agent.guard import ask, guard, shield
from loaderwatch.agent.loader_description import synced_buffers
from loaderwatch.agent.model.compilers import Hook, hide_from_script
from loaderwatch.agent.model.hooks import StepHooks
from loaderwatch.agent.model.optimizer_hooks import take

MAX_SEARCHES: Final = 4
"""How many times a process searches all its objects."""


class Modules:
    """The modules of this process that were found so far, by weak reference."""

    def __init__(self) -> None:
        self._found: list[weakref.ref[Any]] = []
        self._searches = 0

    def roots(self, optimizer: Any) -> list[Any]:
        """Return the outermost modules that hold parameters which this optimizer trains."""
        wanted = {
            id(parameter)
            for group in ask(lambda: list(optimizer.param_groups)) or ()
            for parameter in group["params"]
            if parameter.requires_grad
        }
        modules = [module for module in (ref() for ref in self._found) if module is not None]
        owners = [module for module in modules if _holds(module, wanted)]
        if not owners and self._searches < MAX_SEARCHES:
            self._searches += 1
            modules = _search()
            self._found = [weakref.ref(module) for module in modules]
            owners = [module for module in modules if _holds(module, wanted)]
        return _outermost(owners, modules)


def _search() -> list[Any]:
    kinds = {Module}
    unvisited = [Module]
    while unvisited:
        subclasses = [kind for kind in type.__subclasses__(unvisited.pop()) if kind not in kinds]
        kinds.update(subclasses)
        unvisited.extend(subclasses)
    known = {id(kind) for kind in kinds}  # by id, because a metaclass may define equality
    return [item for item in gc.get_objects() if id(type(item)) in known and "_parameters" in item.__dict__]


def _holds(module: Any, wanted: set[int]) -> bool:
    return any(id(value) in wanted for value in (ask(lambda: list(module._parameters.values())) or ()))


def _outermost(owners: list[Any], found: Iterable[Any]) -> list[Any]:
    around: dict[int, list[Any]] = {}
    for module in found:
        for child in children_of(module):
            around.setdefault(id(child), []).append(module)
    seen: dict[int, Any] = {}
    climbing = list(owners)
    while climbing:
        module = climbing.pop()
        if id(module) not in seen:
            seen[id(module)] = module
            climbing.extend(around.get(id(module), ()))
    return [module for module in seen.values() if id(module) not in around]


def children_of(module: Any) -> list[Any]:
    """Return the modules directly inside a module."""
    return [child for child in (ask(lambda: list(module._modules.values())) or ()) if child is not None]


def computing_children(module: Any) -> list[Any]:
    """Return the direct children that have parameters, trained or frozen; a loss or activation has none."""
    return [child for child in children_of(module) if _computes(child)]


def inside(module: Any) -> set[int]:
    """Return the ids of a module and of all modules inside it."""
    return {id(part) for part in ask(lambda: list(module.modules())) or (module,)}


def _computes(module: Any) -> bool:
    return ask(lambda: next(module.parameters(), None)) is not None


NO_OPTIMIZER: Final = "optimizer"
"""Why phases are missing: no optimizer of PyTorch has stepped while a batch was worked on."""
NO_MODEL: Final = "model"
"""Why phases are missing: no module with the optimizer's parameters ran hooks (compiled functions do not)."""
MANY: Final = "many"
"""Why phases are missing: hooks on all modules that are called side by side would cost too much."""

MAX_LEVELS: Final = 6
"""How many levels deep the search goes inside a module that is not called."""
MAX_HOOKED: Final = 20_000
"""How many modules may have a hook for some steps."""
MAX_MODELS: Final = 12
"""How many modules that are called side by side are timed: each one costs a little in every step."""
PATIENCE: Final = 4
"""How many steps an uncalled module keeps its hook when there is nothing left to search inside it."""
MAX_ROUNDS: Final = 6
"""How many times modules are hooked for some steps."""
MISSED: Final = 3
"""After this many steps without a call of a known model, the search restarts; the number then doubles."""
MAX_OPTIMIZERS: Final = 100
"""For how many optimizers the models are searched at their first step."""
STEPS_ALONE: Final = 5
"""After this many optimizer steps in a row without a batch, a process trains without a loader."""
TAKES_OVER: Final = 8
"""After this many steps in a row, another optimizer becomes the leading one."""

_task: Final[Callable[[], int] | None] = getattr(torch._C, "_current_graph_task_id", None)
"""Returns -1 outside a backward pass. Inside one, activation checkpointing calls modules again."""


class Scout:
    """Searches for the model and the optimizer that ``hooks`` was not given.

    Args:
        hooks: the session's hooks.
        change: sets fields of the process's description.
        trains_alone: is called once optimizers step without a batch; it may begin a loaderless loop.
    """

    def __init__(
        self, hooks: StepHooks, change: Callable[..., None], trains_alone: Callable[[], None]
    ) -> None:
        self._hooks = hooks
        self._change = change
        self._trains_alone = trains_alone
        self._alone = 0  # steps in a row without a batch of any loader
        self.is_over = False  # model and optimizer were both given, and train
        self._modules = Modules()
        self._from_the_first = not hooks.recorder.batches
        self._lead: Callable[[], Any] = _nobody
        self._others = 0  # steps of other optimizers since the leading one last stepped
        self._explored: weakref.WeakSet[Any] = weakref.WeakSet()
        self._frontier: weakref.WeakSet[Any] | None = None  # modules that currently have a hook of the search
        self._age = 0  # the frontier's age in steps
        self._rounds = 0
        self._missed = 0
        self._patience = MISSED
        self._crowded = False
        self._called = Hook(_nothing)
        self._scouting: list[Any] = []
        self._optimizer_hooks = take(optimizers)
        self._optimizer_hooks.aim(self._step_began, self._step_ended)
        change(phases_missing=None if hooks.given_optimizer else NO_OPTIMIZER)

    def remove(self) -> None:
        """Remove all hooks of the search."""
        self._end()
        self._optimizer_hooks.remove()

    def begin_anew(self) -> None:
        """Forget the optimizer and models that were found: something else trains from now on."""
        self._rest()
        self._lead = _nobody
        self._others = self._rounds = self._missed = 0
        self._patience = MISSED
        self._explored.clear()
        if not self._hooks.given_models:
            self._hooks.forget_models()

    def _end(self) -> None:
        """Stop searching. PyTorch is iterating its global hooks, so ours stay registered and do nothing."""
        self.is_over = True
        self._rest()
        self._optimizer_hooks.silence()

    def _step_began(self, _optimizer: Any, _arguments: Any, _options: Any) -> None:
        try:  # instead of a shield, whose call would cost time in every step
            hooks = self._hooks
            if not hooks.given_optimizer and get_ident() == hooks.recorder.thread:
                hooks.optimizer_began()
        except Exception as fault:  # noqa: BLE001 - a fault of ours never reaches training
            guard.note(fault)

    def _step_ended(self, optimizer: Any, _arguments: Any, _options: Any) -> None:
        try:
            hooks = self._hooks
            thread = get_ident()
            recorder = hooks.recorder
            if thread != recorder.thread and not recorder.moves_to(thread, first=self._lead() is None):
                return
            loop = recorder.step_loop
            if optimizer is self._lead():
                if not hooks.given_optimizer:
                    hooks.optimizer_ended()
                self._others = 0
                self._age += 1
            elif not self._meet(optimizer):
                return
            if loop is not None:
                (loop.step_ended if optimizer is self._lead() else loop.other_step_ended)()
            if hooks.forward_ns:
                self._missed = 0
                if self._frontier is None:
                    if hooks.given_optimizer and hooks.given_models and loop is None:
                        self._end()
                    return
            self._look(optimizer)
        except Exception as fault:  # noqa: BLE001 - a fault of ours never reaches training
            guard.note(fault)

    def _meet(self, optimizer: Any) -> bool:
        """Note a step of an optimizer that does not lead; return whether to search for its models."""
        hooks = self._hooks
        counting = not hooks.given_optimizer
        if not self._in_step():
            if counting:
                hooks.other_optimizer_ended()
            self._alone += 1
            if self._alone <= STEPS_ALONE:
                self._optimizer_hooks.note_step(optimizer)
            if self._alone == STEPS_ALONE:
                self._trains_alone()
            return False
        self._alone = 0
        if self._lead() is None or self._others >= TAKES_OVER:
            if hooks.recorder.ahead.readers:
                hooks.recorder.ahead.loop_works()
            self._lead = weakref.ref(optimizer)
            self._others = 0
            self._age += 1
            if counting:
                if not hooks.has_optimizer:
                    alone = hooks.recorder.step_loop is not None
                    earlier_steps = self._optimizer_hooks.steps_noted(optimizer) if alone else 0
                    hooks.count_steps(self._from_the_first, earlier_steps)
                    self._change(has_optimizer=True, phases_missing=None if hooks.has_model else NO_MODEL)
                hooks.optimizer_ended()
        else:
            self._others += 1
            if counting:
                hooks.other_optimizer_ended()
        if optimizer not in self._explored and len(self._explored) < MAX_OPTIMIZERS:
            self._explored.add(optimizer)
            if not hooks.given_models:
                self._scout(self._modules.roots(optimizer))
        return True

    def _in_step(self) -> bool:
        """Whether a batch is worked on. Always true if a thread reads ahead or the loop has no loader."""
        hooks = self._hooks
        if hooks.recorder.ahead.readers or hooks.recorder.step_loop is not None:
            return True
        return any(step.phases is hooks and step.delivered_ns for step in hooks.recorder.open_steps)

    def _look(self, optimizer: Any) -> None:
        """Continue the search after a step that called no known model, or while a search is under way."""
        if self._frontier is not None:
            if optimizer is self._lead():
                self._go_on()
            return
        self._missed += 1
        if self._missed < self._patience or self._rounds >= MAX_ROUNDS or self._crowded:
            return
        self._missed = 0
        self._patience *= 2
        given_models = list(self._hooks.given_models)
        if given_models:
            self._scout([child for model in given_models for child in computing_children(model)])
        else:
            self._scout(self._modules.roots(optimizer))

    def _scout(self, outermost: list[Any]) -> None:
        """Hook these modules for some steps."""
        new = [module for module in outermost if module not in self._hooks.models]
        if not new:
            return
        if self._frontier is None:
            self._rounds += 1
            self._frontier = weakref.WeakSet()
            self._called = Hook(shield(self._was_called))
            hide_from_script()
        self._age = 0
        self._hook(new)

    def _hook(self, modules: list[Any]) -> None:
        frontier = self._frontier
        if frontier is None:
            return
        for module in modules:
            if module not in frontier and len(frontier) < MAX_HOOKED:
                frontier.add(module)
                handle = ask(lambda m=module: m.register_forward_pre_hook(self._called))  # type: ignore[misc]
                if handle is not None:  # TorchScript's modules refuse hooks
                    self._scouting.append(handle)

    def _was_called(self, module: Any, inputs: Any) -> None:
        """Time a module of the frontier from its current call on."""
        hooks = self._hooks
        if (
            hooks.forward_depth  # called from inside a known model
            or module in hooks.models
            or get_ident() != hooks.recorder.thread
            or not is_grad_enabled()
            or (_task is not None and _task() != -1)
            or self._crowded
            or not self._in_step()
        ):
            return
        if len(hooks.models) >= MAX_MODELS:
            self._crowded = True
            hooks.forget_models()
            self._change(has_model=False, phases_missing=MANY)
            return
        hooks.watch_called(module, inputs)
        self._change(has_model=True, synced_buffers=synced_buffers(module), phases_missing=None)

    def _go_on(self) -> None:
        """After a whole step, search inside the modules that were not called in it, or end the search."""
        frontier = self._frontier
        if frontier is None or not self._age:
            return
        found_models = [model for model in self._hooks.models if model not in self._hooks.given_models]
        timed = set[int]().union(*(inside(model) for model in found_models))
        known: dict[int, bool] = {}
        left = [module for module in frontier if not _covered(module, timed, known)]
        if not left or self._age >= MAX_LEVELS + PATIENCE or self._crowded:
            self._rest()
            if not self._hooks.has_model or (self._hooks.given_models and not self._hooks.saw_forward):
                self._change(phases_missing=MANY if self._crowded else NO_MODEL)
            return
        if self._age <= MAX_LEVELS:
            self._hook([child for m in left for child in computing_children(m) if id(child) not in timed])

    def _rest(self) -> None:
        """Remove the hooks that were set for some steps only."""
        self._called.silence()
        for handle in self._scouting:
            handle.remove()
        self._scouting.clear()
        self._frontier = None


def _covered(module: Any, timed: set[int], known: dict[int, bool]) -> bool:
    """Whether everything that a module computes is timed."""
    if id(module) in timed:
        return True
    if id(module) not in known:
        known[id(module)] = False  # a module may contain itself
        children = computing_children(module)
        known[id(module)] = bool(children) and all(_covered(child, timed, known) for child in children)
    return known[id(module)]


def _nobody() -> None:
    return None


def _nothing(*_: object) -> None:
    pass
