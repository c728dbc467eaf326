from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.plain import Pass, PhaseClock, SampleClock

LAYOUT: Final[tuple[int, ...]]

class timed_next:
    def __init__(
        self,
        call: Callable[[Any], Any],
        caught: Callable[[Any, BaseException], None],
        failed: Callable[[Any, BaseException], None],
    ) -> None: ...
    def __call__(self, iterator: Any) -> Any: ...

def nexts_on_the_stack() -> int: ...

__all__ = ["LAYOUT", "Pass", "PhaseClock", "SampleClock", "nexts_on_the_stack", "timed_next"]
