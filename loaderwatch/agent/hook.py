"""What we leave with the user's model and optimizer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from loaderwatch.agent.guard import guard


class Hook:
    """A shielded function that is handed to the user's objects and answers nothing.

    Copies of the object in this process keep it until it is silenced. Pickles hold the standard library's function
    that takes anything and returns None in its place: they must load where we are not installed.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function

    def __call__(self, *args: Any) -> None:
        try:
            self._function(*args)
        except Exception as fault:  # noqa: BLE001 - the guard's seam, without a frame more
            guard.note(fault)

    def silence(self) -> None:
        """Do nothing from now on."""
        self._function = _nothing

    def __deepcopy__(self, memo: object) -> Hook:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (nullcontext, "__exit__")


def _nothing(*_: object) -> None:
    pass
