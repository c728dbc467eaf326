"""The seam between our lines and the user's: a fault of ours never reaches training, the user's errors are their own.

This is the only module that catches ``Exception``, but for the hot path, which spells the same out in one frame.
"""

# ruff: noqa: BLE001 - catching everything of ours is what this module is for; the user's calls stand outside

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

TRIP_AFTER: Final = 5
"""Faults after which the hooks step aside for good: a fault that repeats would cost every iteration."""


class Guard:
    """Counts the faults of ours that it swallowed, and trips open when there are too many."""

    def __init__(self) -> None:
        self.faults = 0
        self.tripped = False
        self.on_fault: Callable[[], None] | None = None  # publishes the count
        self.on_trip: Callable[[], None] | None = None  # takes the hooks out
        self._last: deque[Exception] = deque(maxlen=16)

    def note(self, fault: Exception) -> None:
        """Remember a fault; at the limit, say so once and step aside."""
        self.faults += 1
        self._last.append(fault)
        try:
            tripping = self.faults >= TRIP_AFTER and not self.tripped
            self.tripped = self.tripped or tripping
            if self.on_fault is not None:
                self.on_fault()
            if tripping:
                if self.on_trip is not None:
                    self.on_trip()
                say(
                    f"stepped aside after {self.faults} faults of its own; training goes on unwatched."
                    f" The last one: {type(fault).__name__}: {fault}"
                )
        except Exception as worse:
            self._last.append(worse)

    @property
    def last(self) -> str:
        """The fault noted last."""
        return repr(self._last[-1]) if self._last else ""

    def reset(self) -> list[Exception]:
        """Forget everything; returns the last faults."""
        last = list(self._last)
        self.__init__()  # type: ignore[misc]
        return last


guard: Final = Guard()


def say(line: str) -> None:
    """One line on the job's stderr."""
    try:
        sys.stderr.write(f"loaderwatch: {line}\n")
        sys.stderr.flush()
    except Exception as fault:  # a closed or replaced stderr must not matter
        guard._last.append(fault)


def take_swallowed() -> list[Exception]:
    """The faults swallowed in this process since the last call; the guard starts afresh."""
    return guard.reset()


def shield(function: Callable[P, T], *, passing: type[Exception] | tuple[()] = ()) -> Callable[P, T | None]:
    """The function, returning None instead of raising anything but ``passing``: what the user has to hear."""

    def shielded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except passing:
            raise
        except Exception as fault:
            guard.note(fault)
            return None

    return shielded


def ask(question: Callable[[], T]) -> T | None:
    """The answer of an object that is not ours; None when it raises, which is no fault of ours."""
    try:
        return question()
    except Exception:
        return None
