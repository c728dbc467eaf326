"""The hot path in Python: what every batch and every step of the model touches.

``_hot.c`` is the same, compiled when loaderwatch is installed; this package says what both do, and takes its place where there
was no compiler (``hot.py`` decides). After a step of the user's model nothing of ours is in the processor's caches: every
function called, every object and every line of memory touched costs several times what it costs in a loop of its own. So
the usual case (training thread, nothing nested) is spelled out here: two clocks, one
record of the step that ended, and five words of the open span. All that can be known later is left to ``Epoch.settle``
and to the reader of the ring; everything else goes through ``Epoch.request`` and ``Epoch.deliver``.
"""

from __future__ import annotations

from loaderwatch.agent.hot.fetches import noted_collate, timed_fetch
from loaderwatch.agent.hot.layout import LAYOUT
from loaderwatch.agent.hot.nexts import nexts_on_the_stack, timed_next
from loaderwatch.agent.hot.passes import Pass
from loaderwatch.agent.hot.phases import PhaseClock
from loaderwatch.agent.hot.samples import SampleClock, TimedIndices

__all__ = [
    "LAYOUT",
    "Pass",
    "PhaseClock",
    "SampleClock",
    "TimedIndices",
    "nexts_on_the_stack",
    "noted_collate",
    "timed_fetch",
    "timed_next",
]
