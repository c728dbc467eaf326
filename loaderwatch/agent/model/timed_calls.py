"""Puts our clock around the calls of a model, where PyTorch looks for what ``Module.compile`` has left there.

A hook on a module costs 4.5 µs of the 12 that we added to a step, since with any hook PyTorch's call takes a longer way; a module
with hooks cannot become a CUDA graph; and copies of a module have its hooks as well. The name ``_compiled_call_impl`` is private to
PyTorch (since 2.1). It is set on the class, whose modules have None there but for the watched ones; what ``Module.compile`` sets on
a module itself goes first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.hot import CallsOf, PhaseClock, TimedCall
from loaderwatch.agent.hot.calls import FIELD


class ClassCalls(CallsOf):
    """The watched modules of one class. To pickles of the class, this is None."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(None), ()


class TimedCalls:
    """The calls of some models, which tell one clock."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock: Final = clock
        self._calls: dict[type[Any], list[TimedCall]] = {}

    def add(self, model: Any) -> None:
        """Time the calls of a model from now on."""
        kind = type(model)
        found = vars(kind).get(FIELD)
        if found is None:
            found = ClassCalls(_none)
            setattr(kind, FIELD, found)
        if not isinstance(found, ClassCalls):
            return  # somebody else's, for all modules of the class
        call = TimedCall(self._clock, weakref.ref(model))
        found.calls = (*found.calls, call)
        self._calls.setdefault(kind, []).append(call)

    def tell_first(self, told: Callable[[], object] | None) -> None:
        """Have this called as a model is called, before the clock."""
        for calls in self._calls.values():
            for call in calls:
                call.before = told

    def remove(self) -> None:
        """Time none of them any more."""
        for kind, calls in self._calls.items():
            found = vars(kind).get(FIELD)
            if isinstance(found, ClassCalls):
                found.calls = tuple(one for one in found.calls if one not in calls)
                if not found.calls:
                    delattr(kind, FIELD)
        self._calls.clear()


def _none(_module: Any) -> None:
    return None
