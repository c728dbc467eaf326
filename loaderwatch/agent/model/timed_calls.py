"""Puts our clock around the calls of a model, where PyTorch looks for what ``Module.compile`` has left there.

A hook on a module costs 4.5 µs of the 12 that we added to a step, since with any hook PyTorch's call takes a longer way; a module
with hooks cannot become a CUDA graph; and copies of a module have its hooks as well. The name ``_compiled_call_impl`` is private to
PyTorch (since 2.1). It is set on the class, whose modules have None there but for the watched ones; what ``Module.compile`` sets on
a module itself goes first.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any, Final

from loaderwatch.agent.guard import ask
from loaderwatch.agent.hot import CallsOf, PhaseClock, TimedCall
from loaderwatch.agent.hot.calls import FIELD


class ClassCalls(CallsOf):
    """The watched modules of one class, set on it while there are any. To pickles of the class, this is None."""

    owner: Callable[[], type[Any] | None]

    def without(self, gone: Iterable[TimedCall] = ()) -> None:
        """Forget some calls, and those of models that are no more."""
        gone = tuple(gone)
        self.calls = tuple(one for one in self.calls if one not in gone and one.model() is not None)
        owner = self.owner()
        if not self.calls and owner is not None and vars(owner).get(FIELD) is self:
            ask(lambda: delattr(owner, FIELD))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(None), ()


class TimedCalls:
    """The calls of some models, which tell one clock."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock: Final = clock
        self._calls: list[tuple[ClassCalls, TimedCall]] = []
        self._thread = get_ident()

    def add(self, model: Any) -> bool:
        """Time the calls of a model from now on; return False where its class takes no such thing, or has one of somebody else's."""
        kind = type(model)
        found = vars(kind).get(FIELD)
        if FIELD not in vars(kind) and hasattr(kind, FIELD):
            found = ClassCalls(_none)
            found.owner = weakref.ref(kind)
            ask(lambda: setattr(kind, FIELD, found))
        if not isinstance(found, ClassCalls) or vars(kind).get(FIELD) is not found:
            return False
        classes = found  # not the model, nor us
        call = TimedCall(self._clock, weakref.ref(model, lambda _: classes.without()))
        found.calls = (
            *(one for one in found.calls if one.model() is not model),
            call,
        )  # one may only call since a detach
        self._thread = get_ident()
        self._calls = [one for one in self._calls if one[1].model() is not None]
        self._calls.append((found, call))
        return True

    def tell_first(self, told: Callable[[], object] | None) -> None:
        """Have this called as a model is called, before the clock."""
        for _, call in self._calls:
            call.before = told

    def remove(self) -> None:
        """Time none of them any more.

        ``Module.__call__`` looks twice. Another thread may come in between, so from there they stay, and only call, until their models
        are no more.
        """
        for _, call in self._calls:
            call.clock = call.before = None
        if get_ident() == self._thread:
            for found, call in self._calls:
                found.without((call,))
        self._calls.clear()


def _none(_module: Any) -> None:
    return None
