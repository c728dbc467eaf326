"""The hot path: ``__next__`` of a watched iterator, ``fetch`` of a watched fetcher, and what these and the hooks on the model
keep their books with.

All of it comes from ``_hot.c`` where loaderwatch was installed with a compiler, else from ``plain``, which is the same in Python.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot import plain

_chosen: Any = plain
if not os.environ.get("LOADERWATCH_PLAIN"):
    try:
        from loaderwatch.agent.hot import _hot
    except ImportError:
        pass
    else:
        # Left of an older checkout, it was compiled for another layout of the ring or has other names.
        if (
            _hot.LAYOUT == plain.LAYOUT
            and {*plain.__all__} <= {*dir(_hot)}
            and hasattr(_hot.PhaseClock, "other_optimizer_ended")
        ):
            _chosen = _hot

if TYPE_CHECKING:
    from loaderwatch.agent.hot.plain import Pass, PhaseClock, SampleClock, noted_collate
else:
    Pass, PhaseClock, SampleClock = _chosen.Pass, _chosen.PhaseClock, _chosen.SampleClock
    noted_collate = _chosen.noted_collate

__all__ = [
    "Pass",
    "PhaseClock",
    "SampleClock",
    "nexts_on_the_stack",
    "noted_collate",
    "timed_fetch",
    "timed_next",
]


def timed_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``__next__`` that tells the epoch in ``self._loaderwatch`` about each call of the iterator's own ``__next__``."""
    return _chosen.timed_next(call, _caught, _failed)  # type: ignore[no-any-return]


def timed_fetch(call: Callable[..., Any]) -> Callable[..., Any]:
    """``fetch`` that tells the clock in ``self._loaderwatch`` about each call of the fetcher's own ``fetch``."""
    return _chosen.timed_fetch(call, guard, _swallowed)  # type: ignore[no-any-return]


def nexts_on_the_stack() -> int:
    """How many calls of ``__next__`` of ours this thread is inside of."""
    return _chosen.nexts_on_the_stack()  # type: ignore[no-any-return]


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


def _swallowed(clock: Any, error: BaseException) -> None:
    """The guard's seam of a fetch.

    Raises:
        BaseException: what a signal handler raised in the middle of our lines.
    """
    if not isinstance(error, Exception):
        raise error
    guard.note(error)
