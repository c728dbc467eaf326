"""The calls of watched models, timed, in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.hot.phases import PhaseClock

FIELD: Final = "_compiled_call_impl"
"""Where ``Module.__call__`` looks for what to call in place of ``_call_impl``."""
ASKED_BY: Final = "_wrapped_call_impl"
"""The function that ``Module.__call__`` is."""


class TimedCall:
    """Calls one model as PyTorch would, and tells the clock before and after.

    Args:
        clock: the clock of the phases.
        model: a weak reference to the model.
    """

    __slots__ = ("before", "clock", "model")

    def __init__(self, clock: PhaseClock, model: Callable[[], Any], /) -> None:
        self.clock: PhaseClock | None = clock  # None: it only calls
        self.model: Final = model
        self.before: Callable[[], object] | None = None  # to be called first

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the model."""
        model, clock = self.model(), self.clock
        own = model._call_impl
        if clock is not None:
            if self.before is not None:
                self.before()
            clock.forward_began(model, inputs)
        try:
            output = own(*inputs, **named)
        except BaseException as error:
            if clock is not None:
                clock.forward_failed()
            leave_out_ours(error)
            raise
        if clock is not None:
            clock.forward_ended(model, inputs, output)
        return output


class CallsOf(property):
    """What the modules of a class have in place of their ``_call_impl``: the watched ones their ``TimedCall``, others None.

    No copy of a module can have it, whoever copies its fields; and only ``Module.__call__`` is told of it, so that to everybody else
    a watched model is not compiled. What ``Module.compile`` has set on a module itself goes first.
    torch.compile does not call a property's ``__get__``, but traces its getter; that of ours answers None.
    """

    calls: tuple[TimedCall, ...] = ()

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        own = getattr(module, "__dict__", {}).get(FIELD)
        if own is not None:
            return own
        for call in self.calls:
            if call.model() is module:
                return call if sys._getframe(1).f_code.co_name == ASKED_BY else None
        return None

    def __set__(self, module: Any, value: Any) -> None:
        module.__dict__[FIELD] = value

    def __delete__(self, module: Any) -> None:
        if FIELD not in module.__dict__:
            raise AttributeError(FIELD)
        del module.__dict__[FIELD]
