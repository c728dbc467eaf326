"""The calls of watched models, timed, in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.hot.phases import PhaseClock

FIELD: Final = "_compiled_call_impl"
"""Where ``Module.__call__`` looks for what to call in place of ``_call_impl``."""


class TimedCall:
    """Calls one model as PyTorch would, and tells the clock before and after.

    Args:
        clock: the clock of the phases.
        model: a weak reference to the model.
    """

    __slots__ = ("_clock", "before", "model")

    def __init__(self, clock: PhaseClock, model: Callable[[], Any], /) -> None:
        self._clock: Final = clock
        self.model: Final = model
        self.before: Callable[[], object] | None = None  # to be called first

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Call the model."""
        model = self.model()
        if self.before is not None:
            self.before()
        self._clock.forward_began(model, inputs)
        try:
            output = model._call_impl(*inputs, **named)
        except BaseException as error:
            leave_out_ours(error)
            raise
        self._clock.forward_ended(model, inputs, output)
        return output


class CallsOf(property):
    """What the modules of a class have in place of their ``_call_impl``: the watched ones their ``TimedCall``, others None.

    No copy of a module can have it, whoever copies its fields. What ``Module.compile`` has set on a module itself goes first.
    torch.compile does not call a property's ``__get__``, but traces its getter; that of ours answers None.
    """

    calls: tuple[TimedCall, ...] = ()

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        fields = vars(module)
        if FIELD in fields:
            return fields[FIELD]
        for call in self.calls:
            if call.model() is module:
                return call
        return None

    def __set__(self, module: Any, value: Any) -> None:
        vars(module)[FIELD] = value

    def __delete__(self, module: Any) -> None:
        del vars(module)[FIELD]
