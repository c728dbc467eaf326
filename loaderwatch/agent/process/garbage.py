"""Records pauses of Python's garbage collector, which stop every thread of the process.

``gc.callbacks`` reports begin and end exactly. A collection only reads a clock; a long pause is one record.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from loaderwatch.agent.guard import shield
from loaderwatch.agent.hot import TimedCollections
from loaderwatch.core.records import RecordKind
from loaderwatch.core.ring import RingWriter


def watch_collections(ring: RingWriter, worker: int) -> Callable[[], None]:
    """Record this process's notable pauses from now on; return the function that stops it.

    Args:
        ring: the ring of this process; a forked child that mutes it writes nowhere.
        worker: -1 in the training process.
    """

    def record(began: int, took: int, generation: int, collected: int) -> None:
        if callback in gc.callbacks:  # else it was stopped during this collection
            ring.append(
                RecordKind.COLLECTION,
                worker=worker,
                request_ns=began,
                duration_ns=took,
                generation=generation,
                collected=collected,
            )

    callback = TimedCollections(shield(record))
    gc.callbacks.append(callback)

    def stop() -> None:
        if callback in gc.callbacks:
            gc.callbacks.remove(callback)

    return stop
