"""A search for the outermost modules that hold an optimizer's parameters.

An optimizer knows its parameters, but a parameter knows no module. So the search goes through the garbage
collector's objects: once, in about 0.1 s for half a million objects, then only for unknown parameters.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from typing import Any, Final

from torch.nn import Module

from loaderwatch.agent.guard import ask

MAX_SEARCHES: Final = 4
"""How many times a process searches all its objects."""


class Modules:
    """The modules of this process that were found so far, by weak reference."""

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
        modules = [module for module in (ref() for ref in self._found) if module is not None]
        owners = [module for module in modules if _holds(module, wanted)]
        if not owners and self._searches < MAX_SEARCHES:
            self._searches += 1
            modules = _search()
            self._found = [weakref.ref(module) for module in modules]
            owners = [module for module in modules if _holds(module, wanted)]
        return _outermost(owners, modules)


def _search() -> list[Any]:
    kinds = {Module}
    unvisited = [Module]
    while unvisited:
        subclasses = [kind for kind in type.__subclasses__(unvisited.pop()) if kind not in kinds]
        kinds.update(subclasses)
        unvisited.extend(subclasses)
    known = {id(kind) for kind in kinds}  # by id, because a metaclass may define equality
    return [item for item in gc.get_objects() if id(type(item)) in known and "_parameters" in item.__dict__]


def _holds(module: Any, wanted: set[int]) -> bool:
    return any(id(value) in wanted for value in (ask(lambda: list(module._parameters.values())) or ()))


def _outermost(owners: list[Any], found: Iterable[Any]) -> list[Any]:
    around: dict[int, list[Any]] = {}
    for module in found:
        for child in children_of(module):
            around.setdefault(id(child), []).append(module)
    seen: dict[int, Any] = {}
    climbing = list(owners)
    while climbing:
        module = climbing.pop()
        if id(module) not in seen:
            seen[id(module)] = module
            climbing.extend(around.get(id(module), ()))
    return [module for module in seen.values() if id(module) not in around]


def children_of(module: Any) -> list[Any]:
    """Return the modules directly inside a module."""
    return [child for child in (ask(lambda: list(module._modules.values())) or ()) if child is not None]


def computing_children(module: Any) -> list[Any]:
    """Return the direct children that have parameters, trained or frozen; a loss or activation has none."""
    return [child for child in children_of(module) if _computes(child)]


def inside(module: Any) -> set[int]:
    """Return the ids of a module and of all modules inside it."""
    return {id(part) for part in ask(lambda: list(module.modules())) or (module,)}


def _computes(module: Any) -> bool:
    return ask(lambda: next(module.parameters(), None)) is not None
