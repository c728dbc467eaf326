"""The hot path: ``__next__`` of a watched iterator, and what it and the hooks on the model keep their books with.

``Pass``, ``PhaseClock`` and ``SampleClock`` come from ``_hot.c`` where loaderwatch was installed with a compiler, else from ``hot_plain.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot_plain import LAYOUT

if TYPE_CHECKING:
    from loaderwatch.agent.hot_plain import Pass, PhaseClock, SampleClock
else:
    try:
        if os.environ.get("LOADERWATCH_PLAIN"):
            raise ImportError("LOADERWATCH_PLAIN is set")
        from loaderwatch.agent import _hot

        if _hot.LAYOUT != LAYOUT:
            raise ImportError("_hot.c was compiled for another layout of the ring")
    except ImportError:
        from loaderwatch.agent.hot_plain import Pass, PhaseClock, SampleClock
    else:
        Pass, PhaseClock, SampleClock = _hot.Pass, _hot.PhaseClock, _hot.SampleClock

__all__ = ["Pass", "PhaseClock", "SampleClock", "timed_next"]


def timed_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``__next__`` that tells the epoch in ``self._loaderwatch`` about each call of the iterator's own ``__next__``."""

    def __next__(self: Any) -> Any:
        epoch = self._loaderwatch
        hot = False
        try:
            hot = epoch.enter(self)
        except Exception as fault:  # noqa: BLE001 - the guard's seam: a fault of ours must not reach training
            guard.note(fault)
        try:
            answer = call(self)
        except BaseException as error:
            try:
                epoch.fail(error)
                leave_out_ours(error)
            except Exception as fault:  # noqa: BLE001 - the guard's seam
                guard.note(fault)
            raise
        try:
            if hot:
                epoch.leave()
            else:
                epoch.deliver()
        except Exception as fault:  # noqa: BLE001 - the guard's seam
            guard.note(fault)
        return answer

    __next__._torchdynamo_disable = True  # type: ignore[attr-defined]  # never inlined into a compiled loop
    return __next__
