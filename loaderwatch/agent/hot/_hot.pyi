from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.hot.calls import CallsOf, TimedCall, TimedCollections
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
    """Handle a signal of ``faulthandler.register``: write the same text, but survive what would crash it.

    The file is opened again by its path: another file that has the descriptor by then stays unchanged.
    """

def guard_last_stack(number: int, fd: int, /) -> None:
    """Keep ``faulthandler`` from writing to a foreign file with the same descriptor, on a fatal signal."""

def say_after_success(text: bytes, /) -> None:
    """Write a line to stderr when this process ends with exit code 0. Exists only with glibc."""

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
