from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.hot.calls import CallsOf, TimedCall
from loaderwatch.agent.hot.collector import TimedCollections
from loaderwatch.agent.hot.device_clock import DeviceClock
from loaderwatch.agent.hot.passes import Pass
from loaderwatch.agent.hot.phases import PhaseClock
from loaderwatch.agent.hot.samples import SampleClock, TimedIndices

LAYOUT: Final[str]

class timed_next:
    def __init__(
        self,
        call: Callable[[Any], Any],
        caught: Callable[[Any, BaseException], None],
        failed: Callable[[Any, BaseException], None],
    ) -> None: ...
    def __call__(self, iterator: Any) -> Any: ...

def nexts_on_the_stack() -> int: ...
def guard_stacks(number: int, fd: int, path: bytes, /) -> None:
    """Answer a signal that ``faulthandler.register`` was called for, with what it would write, but survive what it would not.

    Nothing is written to another file that has the descriptor's number by then: the file is opened again by its path.
    """

def guard_last_stack(number: int, fd: int, /) -> None:
    """Keep ``faulthandler`` from writing to another file that has the descriptor's number, on a signal that ends the process."""

def say_after_success(text: bytes, /) -> None:
    """Write a line to stderr when this process has ended with exit code 0; not there without glibc."""

__all__ = [
    "LAYOUT",
    "CallsOf",
    "DeviceClock",
    "Pass",
    "PhaseClock",
    "SampleClock",
    "TimedCall",
    "TimedCollections",
    "TimedIndices",
    "guard_last_stack",
    "guard_stacks",
    "nexts_on_the_stack",
    "timed_next",
]
