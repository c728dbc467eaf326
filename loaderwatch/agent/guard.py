"""The guard between our code and the user's: our faults never reach training, the user's errors always do.

Only this module and the hot path catch ``Exception``. The hot path does so in a single frame.
What we print passes here as well: its catalogue is loaded when the first line is printed.
"""

# ruff: noqa: BLE001 - this module exists to catch all of our faults; the user's calls are outside the guard

from __future__ import annotations

import signal
import sys
import traceback
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from loaderwatch.core.message import Param, Text

P = ParamSpec("P")
T = TypeVar("T")

TRIP_AFTER: Final = 5
"""Faults after which all hooks are removed permanently: a repeating fault would slow every iteration."""


class Guard:
    """Counts our faults that were swallowed, and trips when there are too many."""

    def __init__(self) -> None:
        self.faults = 0
        self.tripped = False
        self.on_fault: Callable[[], None] | None = None  # publishes the count
        self.on_trip: Callable[[], None] | None = None  # removes the hooks
        self.tell: Callable[[str], None] | None = None  # prints the last line; None: ``say`` does
        self._last: deque[Exception] = deque(maxlen=16)

    def note(self, fault: Exception) -> None:
        """Count a fault; at the limit, remove the hooks and print one line.

        Raises:
            Exception: the fault itself, if the user's signal handler raised it while our code ran.
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
                newest = f"{type(fault).__name__}: {fault}"
                (self.tell or say)(in_own_language("hooks-removed", faults=self.faults, fault=newest))
        except Exception as worse:
            self._last.append(_let_go(worse))

    @property
    def last(self) -> str:
        """The newest fault."""
        return repr(self._last[-1]) if self._last else ""

    def reset(self) -> list[Exception]:
        """Reset all counts; return the newest faults."""
        last = list(self._last)
        self.__init__()  # type: ignore[misc]
        return last


def _of_signal_handler(fault: Exception) -> bool:
    """Whether a signal handler raised this error: an alarm's, or PyTorch's for SIGCHLD when a worker dies."""
    trace = fault.__traceback__
    if trace is None or trace.tb_next is None:
        return False
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    codes = {
        getattr(getattr(handler, "__func__", handler), "__code__", None)
        or getattr(type(handler).__call__, "__code__", None)
        for handler in handlers
        if callable(handler)
    }
    while trace is not None:
        if trace.tb_frame.f_code in codes:
            return True
        trace = trace.tb_next
    return False


def _let_go(fault: Exception) -> Exception:
    """Return the fault without its frames. They would keep the batch, the iterator and its workers alive."""
    if hasattr(fault, "add_note"):  # Python >= 3.11
        fault.add_note("".join(traceback.format_exception(type(fault), fault, fault.__traceback__)))
    fault.__traceback__ = fault.__context__ = fault.__cause__ = None
    return fault


guard: Final = Guard()


def say(line: str) -> None:
    """Write one line to the job's stderr, without characters that move a cursor or change the text direction.

    ``core.printable`` does the same but imports ``logging``, which costs each Python process milliseconds.
    """
    try:
        line = "".join(filter(str.isprintable, line.replace("\n", " ")))
        sys.stderr.write(f"loaderwatch: {line}\n")
        sys.stderr.flush()
    except Exception as fault:  # a closed or replaced stderr must not matter
        guard._last.append(_let_go(fault))


def in_own_language(message: str, /, **params: Param) -> str:
    """Return a message in the language of the job's reader; its id and parameters if it cannot be said."""
    return _said(message, params, in_english=False)


def in_english(text: Text) -> str:
    """Return a text in English, for errors and for what is recorded; its id and parameters as above."""
    return _said(text.id, text.params, in_english=True)


def _said(message: str, params: dict[str, Param], *, in_english: bool) -> str:
    """Load the catalogue and say a message.

    A process of the job needs the catalogue only when it prints a line, and most print none. So this function
    imports it, and no other function of the agent does.
    """
    try:
        from loaderwatch import texts
        from loaderwatch.core.message import Text

        return texts.say(Text(message, params), texts.SOURCE if in_english else texts.own_language())
    except Exception as fault:
        if _of_signal_handler(fault):
            raise
        guard._last.append(_let_go(fault))
        return f"{message} {params}"


def has_stderr() -> bool:
    """Whether descriptor 2 was open when Python started; otherwise the next opened file got that number."""
    return sys.__stderr__ is not None


def shield(function: Callable[P, T], *, passing: type[Exception] | tuple[()] = ()) -> Callable[P, T | None]:
    """Wrap a function to return None instead of raising. Errors of type ``passing`` still reach the user."""

    def shielded(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return function(*args, **kwargs)
        except passing:
            raise
        except Exception as fault:
            note = getattr(guard, "note", None)  # Python sets module names to None at its exit
            if note is not None:
                note(fault)
            return None

    return shielded


def ask(question: Callable[[], T]) -> T | None:
    """Call code that is not ours; return None if it raises. Such an error does not count as our fault."""
    try:
        return question()
    except Exception:
        return None


def weakly(one: Any) -> Callable[[], Any]:
    """Return a function that gives the object while it lives, else None; for a list, it always gives None."""
    return ask(lambda: weakref.ref(one)) or (lambda: None)
