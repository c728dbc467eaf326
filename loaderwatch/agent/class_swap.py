"""Makes the subclasses that replace the class of a watched object."""

from __future__ import annotations

import sys
from abc import ABCMeta
from typing import Any, Final

_SILENT: Final = ("builtins", "typing", "torch.utils.data.dataloader")
"""Modules whose ``__init_subclass__`` has no effect: DataLoader's is our own hook; it skips our classes."""
_HELD_HERE: Final = 3
"""References to a dict that only its object holds: the object's, ours, and that of ``getrefcount``."""


class _Unheard:
    """Precedes a base class in the MRO, so that the base's ``__init_subclass__`` is not called."""

    def __init_subclass__(cls) -> None:
        pass


def hidden_subclass(base: Any, namespace: dict[str, Any]) -> Any:
    """Make a subclass with the base's name, without calling the base's metaclass and ``__init_subclass__``.

    Both may register the subclass or set class attributes, but only loaderwatch should know this subclass.
    """
    metaclass: Any = type(base)
    make = ABCMeta.__new__ if issubclass(metaclass, ABCMeta) else type.__new__
    if any("__init_subclass__" in vars(kind) and kind.__module__ not in _SILENT for kind in base.__mro__):
        # type.__new__ calls the first __init_subclass__ in the MRO. Only a metaclass can change that MRO.
        def mro(cls: type) -> list[type]:
            return [cls, _Unheard, *base.__mro__]

        metaclass = type.__new__(type, metaclass.__name__, (metaclass,), {"mro": mro})
    named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    made: Any = make(metaclass, base.__name__, (base,), {**named, **namespace})
    return made


def keep_fields_quick(one: object) -> None:
    """Give an object whose class was swapped an ordinary dict, so that its attributes are read quickly.

    Since Python 3.11 attributes lie in the object itself, and a class swap moves them into a dict with shared
    keys. CPython cannot specialize reads from such a dict: each costs 270 more instructions, in the user's
    code and in PyTorch's. From an ordinary dict it costs 20 more. A dict with other holders stays as it is.
    """
    fields = one.__dict__
    if type(fields) is dict and sys.getrefcount(fields) <= _HELD_HERE:
        object.__setattr__(one, "__dict__", dict(fields))
