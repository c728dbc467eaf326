"""``fetch`` and ``collate_fn`` of a watched fetcher, in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot.nexts import Seam
from loaderwatch.agent.hot.samples import TimedIndices


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
