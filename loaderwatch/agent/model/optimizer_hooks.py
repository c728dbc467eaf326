"""PyTorch's global hooks around the step of every optimizer. They may be set long before they are needed.

They can be neither set nor removed inside a step, because PyTorch iterates over them then. To start listening
inside a step, take over hooks that were set before.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from loaderwatch.agent.model.compilers import Hook

Listener = Callable[[Any, Any, Any], None]
"""Is called with the optimizer and the arguments of its step."""

_early: OptimizerHooks | None = None


class OptimizerHooks:
    """The two hooks; they do nothing until they are aimed.

    Args:
        module: ``torch.optim.optimizer``.
    """

    def __init__(self, module: Any) -> None:
        self._hooks = Hook(_nothing), Hook(_nothing)
        self._before: list[tuple[Listener, Listener]] = []
        self._uncounted: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        began, ended = self._hooks
        self._handles = [
            module.register_optimizer_step_pre_hook(began),
            module.register_optimizer_step_post_hook(ended),
        ]

    def aim(self, began: Listener, ended: Listener) -> None:
        """Call these functions from now on, before and after each step."""
        self._before.append((began, ended))  # keeps the running function alive: a hook drops it for a new one
        for hook, function in zip(self._hooks, (began, ended), strict=True):
            hook.aim(function)

    def note_step(self, optimizer: Any) -> None:
        """Note a step of an optimizer before it is known what trains."""
        self._uncounted[optimizer] = self._uncounted.get(optimizer, 0) + 1

    def steps_noted(self, optimizer: Any) -> int:
        """Return how many steps of this optimizer were noted."""
        return self._uncounted.get(optimizer, 0)

    def silence(self) -> None:
        """Do nothing from now on."""
        for hook in self._hooks:
            hook.silence()

    def remove(self) -> None:
        """Remove both hooks; not from inside a step."""
        self.silence()
        for handle in self._handles:
            handle.remove()


def set_early(module: Any) -> OptimizerHooks:
    """Set the hooks for a later listener, and return them."""
    global _early
    _early = OptimizerHooks(module)
    return _early


def take(module: Any) -> OptimizerHooks:
    """Return the hooks that were set early, else new ones."""
    global _early
    early, _early = _early, None
    return early or OptimizerHooks(module)


def _nothing(*_: object) -> None:
    pass
