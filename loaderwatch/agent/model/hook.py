"""What we leave with the user's model and optimizer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any


class Hook(partial[None]):
    """A function of ours that is handed to the user's objects: it raises nothing and answers nothing.

    A ``partial`` of no arguments calls it without a Python frame of its own. Copies of the object in this process keep
    it until it is silenced. Pickles hold the standard library's function that takes anything and returns None in its
    place: they must load where we are not installed.
    """

    @property
    def func(self) -> Callable[..., None]:
        """What torch.compile takes it for, and traces: nothing, so that the user's graph stays whole."""
        return _nothing

    def silence(self) -> None:
        """Do nothing from now on."""
        self.__setstate__((_nothing, (), {}, None))  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: object) -> Hook:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (nullcontext, "__exit__")


def _nothing(*_: object) -> None:
    pass
