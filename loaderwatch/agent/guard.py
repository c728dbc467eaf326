"""The guard between our code and the user's: a fault of ours never reaches training, and the user's errors pass untouched.

Only this module catches ``Exception``, and the hot path, which does the same in a single frame.
"""

# ruff: noqa: BLE001 - catching everything of ours is what this module is for; the user's calls stand outside

from __future__ import annotations

import signal
import sys
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

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
        self.tell: Callable[[str], None] | None = None  # says the last line; None: this process alone does
        self._last: deque[Exception] = deque(maxlen=16)

    def note(self, fault: Exception) -> None:
        """Count a fault; at the limit, say so once and take the hooks out.

        Raises:
            Exception: the fault itself, if a signal handler of the user's raised it in the middle of our lines.
        """
        if _of_signal_handler(fault):
            raise fault
        self.faults += 1
        try:
            self._last.append(_let_go(fault))
            tripping = self.faults >= TRIP_AFTER and not self.tripped
            self.tripped = self.tripped or tripping
            if self.on_fault is not None:
                self.on_fault()
            if tripping:
                if self.on_trip is not None:
                    self.on_trip()
                (self.tell or say)(
                    f"stepped aside after {self.faults} faults of its own; training goes on unwatched."
                    f" The last one: {type(fault).__name__}: {fault}"
                )
        except Exception as worse:
            self._last.append(_let_go(worse))

    @property
    def last(self) -> str:
        """The fault noted last."""
        return repr(self._last[-1]) if self._last else ""

    def reset(self) -> list[Exception]:
        """Start afresh; return the last faults."""
        last = list(self._last)
        self.__init__()  # type: ignore[misc]
        return last


def _of_signal_handler(fault: Exception) -> bool:
    """Whether a signal handler raised this: that of an alarm, or PyTorch's for SIGCHLD when a worker dies."""
    trace = fault.__traceback__
    if trace is None or trace.tb_next is None:
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {
        getattr(getattr(one, "__func__", one), "__code__", None)
        or getattr(type(one).__call__, "__code__", None)
        for one in handlers
        if callable(one)
    }
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _let_go(fault: Exception) -> Exception:
    """Return the fault without its frames, which would keep the batch and the iterator with its workers alive."""
    if hasattr(fault, "add_note"):  # Python >= 3.11
        fault.add_note("".join(traceback.format_exception(type(fault), fault, fault.__traceback__)))
    fault.__traceback__ = fault.__context__ = fault.__cause__ = None
    return fault


guard: Final = Guard()


def say(line: str) -> None:
    """Write one line to the job's stderr, without what moves a cursor or turns the direction of text (see ``core.printable``).

    ``core.printable`` itself imports ``logging``, which takes each Python that a script starts milliseconds.
    """
    try:
        line = "".join(filter(str.isprintable, line.replace("\n", " ")))
        sys.stderr.write(f"loaderwatch: {line}\n")
        sys.stderr.flush()
    except Exception as fault:  # a closed or replaced stderr must not matter
        guard._last.append(_let_go(fault))


def has_stderr() -> bool:
    """Whether descriptor 2 was open when Python started; if not, the next opened file got that number."""
    return sys.__stderr__ is not None


def shield(function: Callable[P, T], *, passing: type[Exception] | tuple[()] = ()) -> Callable[P, T | None]:
    """Wrap a function so that it returns None instead of raising, except for ``passing``, errors that the user has to see."""

    def shielded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except passing:
            raise
        except Exception as fault:
            note = getattr(guard, "note", None)  # Python sets a module's names to None as it ends
            if note is not None:
                note(fault)
            return None

    return shielded


def ask(question: Callable[[], T]) -> T | None:
    """Ask an object that is not ours; return None when it raises, which does not count as our fault."""
    try:
        return question()
    except Exception:
        return None


def weakly(one: Any) -> Callable[[], Any]:
    """Return a function that gives the object while it lives; it gives None if the object (a list, say) allows no weak reference."""
    return ask(lambda: weakref.ref(one)) or (lambda: None)
