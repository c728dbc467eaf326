from collections.abc import Callable
from typing import Any, Final

from loaderwatch.agent.hot_plain import Pass, PhaseClock, SampleClock

LAYOUT: Final[tuple[int, ...]]

class TimedNext:
    def __init__(
        self,
        call: Callable[[Any], Any],
        caught: Callable[[Any, BaseException], None],
        failed: Callable[[Any, BaseException], None],
    ) -> None: ...
    def __call__(self, iterator: Any) -> Any: ...

def nexts_on_the_stack() -> int: ...

__all__ = ["LAYOUT", "Pass", "PhaseClock", "SampleClock", "TimedNext", "nexts_on_the_stack"]
