"""Swapping an object's class: makes the subclasses that take the place of the object's own class."""

from __future__ import annotations

import sys
from abc import ABCMeta
from typing import Any, Final

_SILENT: Final = ("builtins", "typing", "torch.utils.data.dataloader")
"""Modules whose ``__init_subclass__`` may be called: it changes nothing, and DataLoader's is our hook, which skips our classes."""
_HELD_HERE: Final = 3
"""How many references there are to an object's dict that nobody else holds: the object's, ours, and the counting call's."""


class _Unheard:
    """Precedes a base class, so that the base's ``__init_subclass__`` is not called."""

    def __init_subclass__(cls) -> None:
        pass


def hidden_subclass(base: Any, namespace: dict[str, Any]) -> Any:
    """Make a subclass with the base's name, without calling the base's metaclass and ``__init_subclass__``.

    Those keep registries and set class attributes, and nobody but us shall know of this subclass.
    """
    metaclass: Any = type(base)
    make = ABCMeta.__new__ if issubclass(metaclass, ABCMeta) else type.__new__
    if any("__init_subclass__" in vars(one) and one.__module__ not in _SILENT for one in base.__mro__):
        # type.__new__ calls the first __init_subclass__ in the order of bases, which only a metaclass can change beforehand.
        def mro(cls: type) -> list[type]:
            return [cls, _Unheard, *base.__mro__]

        metaclass = type.__new__(type, metaclass.__name__, (metaclass,), {"mro": mro})
    named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    made: Any = make(metaclass, base.__name__, (base,), {**named, **namespace})
    return made


def keep_fields_quick(one: object) -> None:
    """Give an object whose class was swapped a dict of its own.

    From Python 3.11 on, attributes lie in the object itself, and the swap moves them into a dict that shares its keys with
    others. CPython cannot specialize reads from such a dict: each costs 270 instructions more, in the user's code and
    PyTorch's, against 20 from an ordinary dict. A dict that somebody else holds as well is left as it is.
    """
    fields = one.__dict__
    if type(fields) is dict and sys.getrefcount(fields) <= _HELD_HERE:
        object.__setattr__(one, "__dict__", dict(fields))
