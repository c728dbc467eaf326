"""A hook on ``__iter__`` of a class and all its subclasses, also later ones.

A subclass may have its own ``__iter__`` that never calls DataLoader's, like torchdata's StatefulDataLoader.
This module does not import torch, because it is also used while torch is being imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import shield

Call = Callable[[Any, Callable[[Any], Any]], Any]
"""The hook's function: receives the object and the hooked ``__iter__``, and returns the iterator."""


class IterHook:
    """The hook on ``__iter__`` of a class and its subclasses.

    Hooks may be stacked. A hook that is removed while another one is on top of it stays, but does nothing.
    """

    def __init__(self, kind: type, call: Call) -> None:
        self._kind: Any = kind
        self._call = call
        self._active = False
        self._subclassed: tuple[Any, Any] = (None, None)  # our ``__init_subclass__`` and the previous one

    def install(self) -> None:
        """Hook the class, its present subclasses and its future ones."""
        kind = self._kind
        self._active = True
        put = shield(self._put)  # our fault must not break the user's class statement
        for hooked in (kind, *_descendants(kind)):
            put(hooked)
        previous = vars(kind).get("__init_subclass__")

        def __init_subclass__(cls: type[Any], /, **arguments: Any) -> None:
            if previous is not None:
                previous.__func__(cls, **arguments)
            else:
                super(kind, cls).__init_subclass__(**arguments)
            if self._active:
                put(cls)

        ours = classmethod(__init_subclass__)
        kind.__init_subclass__ = ours
        self._subclassed = (ours, previous)

    def remove(self) -> None:
        """Give every class its own ``__iter__`` back."""
        self._active = False
        for kind in (self._kind, *_descendants(self._kind)):
            ours = vars(kind).get("__iter__")
            if self._is_ours(ours):
                _restore(kind, "__iter__", ours, ours._loaderwatch[1])
        _restore(self._kind, "__init_subclass__", *self._subclassed)

    def _put(self, kind: Any) -> None:
        own = kind.__iter__
        leave_out = shield(leave_out_ours)
        if _is_swap(kind) or self._is_ours(own):
            return  # it inherits the hooked ``__iter__`` of its parent

        @functools.wraps(own)
        def __iter__(loader: Any) -> Any:
            try:
                return self._call(loader, own) if self._active else own(loader)
            except BaseException as error:
                leave_out(error)
                raise

        # Never inlined into a compiled loop.
        __iter__._torchdynamo_disable = True  # type: ignore[attr-defined]
        # Nothing here keeps the class alive, because frameworks create a class for each loader.
        __iter__._loaderwatch = (self, vars(kind).get("__iter__"), __iter__)  # type: ignore[attr-defined]
        kind.__iter__ = __iter__

    def _is_ours(self, function: Any) -> bool:
        """Whether this hook made the function; another wrapper may have copied its attributes."""
        put = getattr(function, "_loaderwatch", None)
        return put is not None and put[0] is self and put[2] is function


def _restore(kind: Any, name: str, ours: Any, original: Any) -> None:
    if vars(kind).get(name) is not ours:
        return  # another hook is on top of ours
    if original is None:
        delattr(kind, name)
    else:
        setattr(kind, name, original)


def _is_swap(kind: Any) -> bool:
    """Whether this is a class with which ``attach`` replaces a loader's own class."""
    base = kind.__bases__[0]
    return (kind.__module__, kind.__qualname__) == (base.__module__, base.__qualname__)


def _descendants(kind: type) -> Iterator[type]:
    subclass: type
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _descendants(subclass)
