from typing import Final

from loaderwatch.agent.hot_plain import Pass, PhaseClock, SampleClock

LAYOUT: Final[tuple[int, ...]]

__all__ = ["LAYOUT", "Pass", "PhaseClock", "SampleClock"]
