"""Makes the classes that are put in the place of an object's own."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, Final

_SILENT: Final = ("builtins", "typing", "torch.utils.data.dataloader")
"""Modules whose ``__init_subclass__`` changes nothing; at DataLoader's stands our own hook, which leaves us alone."""


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
