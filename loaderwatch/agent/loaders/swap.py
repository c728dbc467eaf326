"""Makes the classes that are put in the place of an object's own."""

from __future__ import annotations

import sys
from abc import ABCMeta
from typing import Any, Final

_SILENT: Final = ("builtins", "typing", "torch.utils.data.dataloader")
"""Modules whose ``__init_subclass__`` changes nothing; at DataLoader's stands our own hook, which leaves us alone."""
_HELD_HERE: Final = 3
"""References to the dict of an object that nobody else holds: the object's, ours, and that of the call that counts them."""


class _Unheard:
    """Stands in front of a base whose ``__init_subclass__`` is not to be called."""

    def __init_subclass__(cls) -> None:
        pass


def hidden_subclass(base: Any, namespace: dict[str, Any]) -> Any:
    """A subclass under the base's name, of which the base's metaclass and ``__init_subclass__`` do not hear.

    They keep registries and set class attributes, and nobody but us knows of this one.
    """
    metaclass: Any = type(base)
    make = ABCMeta.__new__ if issubclass(metaclass, ABCMeta) else type.__new__
    if any("__init_subclass__" in vars(one) and one.__module__ not in _SILENT for one in base.__mro__):
        # Whom type.__new__ calls is found in the order of bases, which only a metaclass can change beforehand.
        def mro(cls: type) -> list[type]:
            return [cls, _Unheard, *base.__mro__]

        metaclass = type.__new__(type, metaclass.__name__, (metaclass,), {"mro": mro})
    named = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    made: Any = make(metaclass, base.__name__, (base,), {**named, **namespace})
    return made


def keep_fields_quick(one: object) -> None:
    """Give an object whose class was swapped a dict of its own.

    From Python 3.11 on attributes lie in the object itself, and the swap moves them into a dict that shares its keys with
    others: reading one from there cannot be specialized and costs 270 instructions more, in the user's code and PyTorch's. From
    an ordinary dict it is 20. A dict that somebody else holds as well stays.
    """
    fields = one.__dict__
    if type(fields) is dict and sys.getrefcount(fields) <= _HELD_HERE:
        object.__setattr__(one, "__dict__", dict(fields))
