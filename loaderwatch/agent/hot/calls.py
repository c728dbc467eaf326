"""The calls of watched models and the pauses of the garbage collector, timed, in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.hot.layout import NOTABLE_PAUSE_NS
from loaderwatch.agent.hot.phases import PhaseClock
from loaderwatch.core.clock import monotonic_ns


class TimedCollections:
    """Reports the notable pauses.

    Python prints and drops the errors of such a callback. The first bytecode of the callback runs the
    handlers of signals that arrived during the collection, so a Ctrl-C can be lost here. The compiled version
    runs no bytecode and reports the pause right afterwards.
    """

    def __init__(self, tell: Callable[[int, int, int, int], object]) -> None:
        """Args: ``tell`` receives a pause's begin (monotonic ns), length (ns), generation, freed objects."""
        self._tell = tell
        self._began = 0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Note the begin ("start") or the end of a collection."""
        if phase == "start":
            self._began = monotonic_ns()
            return
        began_ns, self._began = self._began, 0
        pause_ns = monotonic_ns() - began_ns
        if began_ns and pause_ns >= NOTABLE_PAUSE_NS:
            self._tell(began_ns, pause_ns, info.get("generation", -1), info.get("collected", -1))


FIELD: Final = "_compiled_call_impl"
"""The attribute that ``Module.__call__`` calls instead of ``_call_impl``, if it is set."""
ASKED_BY: Final = "_wrapped_call_impl"
"""The name of the function behind ``Module.__call__``."""


class TimedCall:
    """Calls one model as PyTorch would, and notes the begin and the end in the clock.

    Args:
        clock: the clock of the phases.
        model: a weak reference to the model.
    """

    __slots__ = ("before", "clock", "model")

    def __init__(self, clock: PhaseClock, model: Callable[[], Any], /) -> None:
        self.clock: PhaseClock | None = clock  # None: the call is not timed
        self.model: Final = model
        self.before: Callable[[], object] | None = None  # called first

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
    """The attribute ``_compiled_call_impl`` of a class: a ``TimedCall`` for watched modules, None for others.

    A copy of a module never inherits the ``TimedCall``, because no field of the module holds it. Only
    ``Module.__call__`` sees it, so the model does not look compiled to other code. A value that
    ``Module.compile`` has set on the module takes precedence. torch.compile traces a property's getter
    instead of calling ``__get__``; our getter returns None.
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
