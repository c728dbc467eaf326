"""The hot path: ``__next__`` of a watched iterator, and what it and the hooks on the model keep their books with.

All of it comes from ``_hot.c`` where loaderwatch was installed with a compiler, else from ``hot_plain.py`` and here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot_plain import LAYOUT

_hot: Any = None
if not os.environ.get("LOADERWATCH_PLAIN"):
    try:
        from loaderwatch.agent import _hot
    except ImportError:
        pass
    else:
        if _hot.LAYOUT != LAYOUT:
            _hot = None  # compiled for another layout of the ring

if TYPE_CHECKING or _hot is None:
    from loaderwatch.agent.hot_plain import Pass, PhaseClock, SampleClock
else:
    Pass, PhaseClock, SampleClock = _hot.Pass, _hot.PhaseClock, _hot.SampleClock

__all__ = ["Pass", "PhaseClock", "SampleClock", "nexts_on_the_stack", "timed_next"]


def timed_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``__next__`` that tells the epoch in ``self._loaderwatch`` about each call of the iterator's own ``__next__``."""
    return _plain_next(call) if _hot is None else _hot.TimedNext(call, _caught, _failed)


def _plain_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:
        epoch = self._loaderwatch
        hot = False
        try:
            hot = epoch.enter(self)
        except BaseException as error:  # noqa: BLE001 - the guard's seam, see _caught
            _caught(epoch, error)
        try:
            answer = call(self)
        except BaseException as error:
            _failed(epoch, error)
            raise
        try:
            if hot:
                epoch.leave()
            else:
                epoch.deliver()
        except BaseException as error:  # noqa: BLE001 - the guard's seam, see _caught
            _caught(epoch, error)
        return answer

    __next__._torchdynamo_disable = True  # type: ignore[attr-defined]  # never inlined into a compiled loop
    return __next__


_next_code: Final = _plain_next(next).__code__  # the same for all of them


def nexts_on_the_stack() -> int:
    """How many calls of ``__next__`` of ours this thread is inside of."""
    if _hot is not None:
        return _hot.nexts_on_the_stack()  # type: ignore[no-any-return]
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        count += frame.f_code is _next_code
        frame = frame.f_back
    return count


def _failed(epoch: Any, error: BaseException) -> None:
    """The user's own ``__next__`` raised, if only StopIteration."""
    try:
        epoch.fail(error)
        leave_out_ours(error)
    except Exception as fault:  # noqa: BLE001 - the guard's seam
        guard.note(fault)


def _caught(epoch: Any, error: BaseException) -> None:
    """The guard's seam: a fault of ours must not reach training. An interrupt must; then the wait it fell into is over.

    Raises:
        BaseException: what a signal handler raised in the middle of our lines.
    """
    try:
        if not isinstance(error, Exception):
            raise error
        guard.note(error)
    except BaseException:
        epoch.fail(error)
        raise
