"""A search for the modules that hold the parameters of an optimizer, and the outermost of those.

An optimizer knows its parameters, but a parameter knows no module. So the modules of the process are searched among the
objects of the garbage collector: once, in some 0.1 s where half a million objects live, and again only for parameters
that no known module holds.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from typing import Any, Final

from torch.nn import Module

from loaderwatch.agent.guard import ask

MAX_SEARCHES: Final = 4
"""How many times a process searches through all its objects."""


class Modules:
    """The modules of this process that were found so far; none is kept alive."""

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
        found = [one for one in (ref() for ref in self._found) if one is not None]
        owners = [one for one in found if _holds(one, wanted)]
        if not owners and self._searches < MAX_SEARCHES:
            self._searches += 1
            found = _search()
            self._found = [weakref.ref(one) for one in found]
            owners = [one for one in found if _holds(one, wanted)]
        return _outermost(owners, found)


def _search() -> list[Any]:
    kinds = {Module}
    new = [Module]
    while new:
        more = [kind for kind in type.__subclasses__(new.pop()) if kind not in kinds]
        kinds.update(more)
        new.extend(more)
    known = {id(kind) for kind in kinds}  # by id, because a metaclass may define equality
    return [one for one in gc.get_objects() if id(type(one)) in known and "_parameters" in one.__dict__]


def _holds(module: Any, wanted: set[int]) -> bool:
    return any(id(one) in wanted for one in (ask(lambda: list(module._parameters.values())) or ()))


def _outermost(owners: list[Any], found: Iterable[Any]) -> list[Any]:
    around: dict[int, list[Any]] = {}
    for one in found:
        for child in children_of(one):
            around.setdefault(id(child), []).append(one)
    seen: dict[int, Any] = {}
    climbing = list(owners)
    while climbing:
        one = climbing.pop()
        if id(one) not in seen:
            seen[id(one)] = one
            climbing.extend(around.get(id(one), ()))
    return [one for one in seen.values() if id(one) not in around]


def children_of(module: Any) -> list[Any]:
    """Return the modules directly inside a module."""
    return [one for one in (ask(lambda: list(module._modules.values())) or ()) if one is not None]


def computing_children(module: Any) -> list[Any]:
    """Return the modules directly inside a module that have parameters, trained or frozen; a loss or an activation has none."""
    return [one for one in children_of(module) if _computes(one)]


def inside(module: Any) -> set[int]:
    """Return the ids of a module and of all modules inside it."""
    return {id(one) for one in ask(lambda: list(module.modules())) or (module,)}


def _computes(module: Any) -> bool:
    return ask(lambda: next(module.parameters(), None)) is not None
