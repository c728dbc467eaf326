"""Times the calls of a model, in the field where PyTorch looks for the result of ``Module.compile``.

A module hook costs 4.5 µs of the 12 µs that we added to a step: any hook makes PyTorch's call take a longer
path. A module with hooks cannot become a CUDA graph, and copies of a module have its hooks as well. The field
``_compiled_call_impl`` is private to PyTorch (since 2.1). It is set on the class, and returns None for all of
its modules except the watched ones. A value that ``Module.compile`` sets on a module comes first.
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
    """The watched modules of one class, set on the class while it has any. It is pickled as None."""

    owner: Callable[[], type[Any] | None]

    def without(self, gone: Iterable[TimedCall] = ()) -> None:
        """Forget these calls, and the calls of models that no longer exist."""
        gone = tuple(gone)
        self.calls = tuple(call for call in self.calls if call not in gone and call.model() is not None)
        owner = self.owner()
        if not self.calls and owner is not None and vars(owner).get(FIELD) is self:
            ask(lambda: delattr(owner, FIELD))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return type(None), ()


class TimedCalls:
    """The timed calls of some models, which write to one clock."""

    def __init__(self, clock: PhaseClock) -> None:
        self._clock: Final = clock
        self._calls: list[tuple[ClassCalls, TimedCall]] = []
        self._thread = get_ident()

    def add(self, model: Any) -> bool:
        """Time a model's calls from now on; return False where its class's field is missing or in use."""
        kind = type(model)
        class_calls = vars(kind).get(FIELD)
        if FIELD not in vars(kind) and hasattr(kind, FIELD):
            class_calls = ClassCalls(_none)
            class_calls.owner = weakref.ref(kind)
            ask(lambda: setattr(kind, FIELD, class_calls))
        if not isinstance(class_calls, ClassCalls) or vars(kind).get(FIELD) is not class_calls:
            return False
        classes = class_calls  # the callback below must hold neither the model nor this object
        call = TimedCall(self._clock, weakref.ref(model, lambda _: classes.without()))
        # Replaces this model's own entry: after a detach it may still be there and only call.
        class_calls.calls = (*(entry for entry in class_calls.calls if entry.model() is not model), call)
        self._thread = get_ident()
        self._calls = [entry for entry in self._calls if entry[1].model() is not None]
        self._calls.append((class_calls, call))
        return True

    def tell_first(self, told: Callable[[], object] | None) -> None:
        """Call this function when a model is called, before the clock."""
        for _, call in self._calls:
            call.before = told

    def remove(self) -> None:
        """Stop timing all of them.

        ``Module.__call__`` reads the field twice, and another thread may come in between. So calls that
        another thread removes stay until their models no longer exist; they only pass the call on.
        """
        for _, call in self._calls:
            call.clock = call.before = None
        if get_ident() == self._thread:
            for class_calls, call in self._calls:
                class_calls.without((call,))
        self._calls.clear()


def _none(_module: Any) -> None:
    return None
