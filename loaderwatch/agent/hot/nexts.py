"""``__next__`` of a watched iterator, in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

Seam = Callable[[Any, BaseException], None]
"""A function that receives the epoch and an error."""


def timed_next(call: Callable[[Any], Any], caught: Seam, failed: Seam) -> Callable[[Any], Any]:
    """Make a ``__next__`` that reports calls of the iterator's own one to the epoch in ``_loaderwatch``.

    Args:
        call: the iterator's own ``__next__``.
        caught: receives an error of our code, and re-raises the error or swallows it.
        failed: receives an error of the iterator's ``__next__``, also StopIteration, which is then re-raised.
    """

    def __next__(self: Any) -> Any:
        epoch = self._loaderwatch
        hot = False
        try:
            hot = epoch.enter(self)
        except BaseException as error:  # noqa: BLE001 - the guard's seam
            caught(epoch, error)
        try:
            answer = call(self)
        except BaseException as error:
            failed(epoch, error)
            raise
        try:
            if hot:
                epoch.leave()
            else:
                epoch.deliver()
        except BaseException as error:  # noqa: BLE001 - the guard's seam
            caught(epoch, error)
        return answer

    __next__._torchdynamo_disable = True  # type: ignore[attr-defined]  # never inlined into a compiled loop
    return __next__


_next_code: Final = timed_next(next, print, print).__code__  # shared by all functions from timed_next


def nexts_on_the_stack() -> int:
    """Return how many calls of our ``__next__`` are on this thread's stack."""
    frame: FrameType | None = sys._getframe(1)
    count = 0
    while frame is not None:
        count += frame.f_code is _next_code
        frame = frame.f_back
    return count
