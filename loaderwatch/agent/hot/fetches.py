"""``fetch`` and ``collate_fn`` of a watched fetcher, ``__next__`` of a watched iterator, in Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final, Protocol

from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot.samples import TimedIndices

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


class Tripwire(Protocol):
    """The part of the guard that a fetch uses."""

    tripped: bool


def timed_fetch(call: Callable[..., Any], guard: Tripwire, caught: Seam) -> Callable[..., Any]:
    """Make a ``fetch`` that reports calls of the fetcher's own one to the clock in ``_loaderwatch``.

    Args:
        call: the fetcher's own ``fetch``.
        guard: after it has tripped, fetches are not reported.
        caught: receives the clock and an error of our code, and re-raises the error or swallows it.
    """

    def fetch(self: Any, *arguments: Any, **named: Any) -> Any:
        if guard.tripped or named or len(arguments) != 1:
            return call(self, *arguments, **named)
        clock = self._loaderwatch
        (handed,) = arguments
        try:
            handed = clock.begin(self._loaderwatch_reads, handed)
        except BaseException as error:  # noqa: BLE001 - the guard's seam
            caught(clock, error)
        try:
            batch = call(self, handed)
        except BaseException:
            try:
                if type(handed) is TimedIndices:
                    handed.done = clock.count
                clock.idle()
            except BaseException as error:  # noqa: BLE001 - the guard's seam
                caught(clock, error)
            raise
        try:
            clock.end(batch)
        except BaseException as error:  # noqa: BLE001 - the guard's seam
            caught(clock, error)
        return batch

    return fetch


class noted_collate:
    """Notes when collating begins: PyTorch reads the attribute ``collate_fn`` right before it calls it."""

    def __get__(self, fetcher: Any, owner: Any = None) -> Any:
        if fetcher is None:
            return self
        fields = fetcher.__dict__
        clock = fields.get("_loaderwatch")
        if clock is not None:
            try:
                clock.collate()
            except Exception as fault:  # noqa: BLE001 - the guard's seam
                guard.note(fault)
        try:
            return fields["collate_fn"]
        except KeyError:
            raise AttributeError("collate_fn") from None

    def __set__(self, fetcher: Any, function: Any) -> None:
        fetcher.__dict__["collate_fn"] = function

    def __delete__(self, fetcher: Any) -> None:
        del fetcher.__dict__["collate_fn"]
