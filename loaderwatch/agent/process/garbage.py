"""Records pauses of Python's garbage collector, which stop every thread of the process.

``gc.callbacks`` tells begin and end exactly. What the callback does while the collector runs is a clock reading and, for
a pause long enough to notice, one record.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from typing import Final

from loaderwatch.agent.guard import shield
from loaderwatch.core.clock import monotonic_ns
from loaderwatch.core.records import RecordKind
from loaderwatch.core.ring import RingWriter

NOTABLE_NS: Final = 1_000_000
"""The shortest pause that is recorded: young generations are collected hundreds of times a second, in microseconds."""

Callback = Callable[[str, Mapping[str, int]], object]


def watch_collections(ring: RingWriter, worker: int) -> Callable[[], None]:
    """Record this process's notable pauses from now on; returns what ends it.

    Args:
        ring: the ring of this process; a forked child that mutes it writes nowhere.
        worker: -1 in the training process.
    """
    began = 0

    def note(phase: str, info: Mapping[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = monotonic_ns()
            return
        took = monotonic_ns() - began
        if began and took >= NOTABLE_NS:
            ring.append(
                RecordKind.COLLECTION,
                worker=worker,
                request_ns=began,
                duration_ns=took,
                generation=info.get("generation", -1),
                collected=info.get("collected", -1),
            )
        began = 0

    callback: Callback = shield(note)
    gc.callbacks.append(callback)

    def stop() -> None:
        if callback in gc.callbacks:
            gc.callbacks.remove(callback)

    return stop
