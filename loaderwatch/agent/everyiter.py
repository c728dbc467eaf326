"""A function in front of ``__iter__`` of a class and of all its subclasses, also those that are defined later.

A subclass may have an ``__iter__`` of its own that never comes to DataLoader's, as torchdata's StatefulDataLoader does.
Imports no torch: it is used while torch is being imported, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

Call = Callable[[Any, Callable[[Any], Any]], Any]
"""Is handed the object and the ``__iter__`` it stands in front of; returns the iterator."""


class EveryIter:
    """The hook; ``install`` puts it in, ``remove`` takes it out again."""

    def __init__(self, kind: type, call: Call) -> None:
        self._kind: Any = kind
        self._call = call
        self._own: dict[Any, Any] = {}

    def install(self) -> None:
        """Hook the class, the subclasses there are, and those to come."""
        kind = self._kind
        for one in (kind, *_descendants(kind)):
            self._put(one)
        put = self._put

        def __init_subclass__(cls: type[Any], /, **arguments: Any) -> None:
            super(kind, cls).__init_subclass__(**arguments)
            put(cls)

        if "__init_subclass__" not in vars(kind):
            kind.__init_subclass__ = classmethod(__init_subclass__)

    def remove(self) -> None:
        """Give every class its own ``__iter__`` back."""
        for kind, own in self._own.items():
            kind.__iter__ = own
        if self._own:
            del self._kind.__init_subclass__
        self._own.clear()

    def _put(self, kind: Any) -> None:
        own = vars(kind).get("__iter__")
        if own is None or _is_swap(kind):
            return
        self._own[kind] = own
        call = self._call

        @functools.wraps(own)
        def __iter__(loader: Any) -> Any:
            return call(loader, own)

        kind.__iter__ = __iter__


def _is_swap(kind: Any) -> bool:
    """Whether it is one of the classes that ``attach`` puts in the place of a loader's own."""
    base = kind.__bases__[0]
    return (kind.__module__, kind.__qualname__) == (base.__module__, base.__qualname__)


def _descendants(kind: type) -> Iterator[type]:
    one: type
    for one in kind.__subclasses__():
        yield one
        yield from _descendants(one)
