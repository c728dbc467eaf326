"""The hot path: the code that runs in every batch and every step of the model.

It holds ``__next__`` of a watched iterator, ``fetch`` of a watched fetcher, the timer of the garbage
collector, and three clocks: for phases, samples and the device.

The file ``_hot.c`` is compiled when loaderwatch is installed. The modules here do the same in Python. They
explain ``_hot.c`` and replace it where there was no compiler.

After a step of the user's model, the processor's caches hold none of our code or data. Each function call and
each object then costs several times as much as in a tight loop. The usual case (training thread, nothing
nested) therefore reads two clocks and writes one record of the ended step and five words of the open span.
Totals are left to ``Epoch.settle`` and the ring's reader, unusual cases to ``Epoch.request`` and ``deliver``.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import guard
from loaderwatch.agent.hot import calls, device_clock, fetches, passes, phases, samples
from loaderwatch.agent.hot.layout import LAYOUT
from loaderwatch.core import environment_variables as variables

in_python: Final = SimpleNamespace(
    CallsOf=calls.CallsOf,
    DeviceClock=device_clock.DeviceClock,
    LAYOUT=LAYOUT,
    Pass=passes.Pass,
    PhaseClock=phases.PhaseClock,
    SampleClock=samples.SampleClock,
    TimedCall=calls.TimedCall,
    TimedCollections=calls.TimedCollections,
    TimedIndices=samples.TimedIndices,
    guard_last_stack=None,
    guard_stacks=None,
    nexts_on_the_stack=fetches.nexts_on_the_stack,
    noted_collate=fetches.noted_collate,
    timed_fetch=fetches.timed_fetch,
    timed_next=fetches.timed_next,
)
"""The hot path in Python, under the names of ``_hot``."""
_chosen: Any = in_python
if not variables.PLAIN.read():
    try:
        from loaderwatch.agent.hot import _hot
    except ImportError:
        pass
    else:
        # A library of an older checkout may have another ring layout or other names: do not use it.
        if (
            _hot.LAYOUT == LAYOUT
            and vars(in_python).keys() <= {*dir(_hot)}
            and hasattr(_hot.TimedIndices, "done")
        ):
            _chosen = _hot

guard_stacks: Final[Callable[[int, int, bytes], None] | None] = _chosen.guard_stacks
"""Replaces ``faulthandler``'s handler. Arguments: signal, descriptor, path of the file. None if not compiled.

If a dump reads a frame that another thread is just leaving, the dump restarts instead of crashing the
process. If the descriptor's number belongs to another file by then, nothing is written to that file."""
guard_last_stack: Final[Callable[[int, int], None] | None] = _chosen.guard_last_stack
"""The same for a signal that writes one stack and ends the process (signal, descriptor)."""

if TYPE_CHECKING:
    from loaderwatch.agent.hot.calls import CallsOf, TimedCall, TimedCollections
    from loaderwatch.agent.hot.device_clock import DeviceClock
    from loaderwatch.agent.hot.fetches import noted_collate
    from loaderwatch.agent.hot.passes import Pass
    from loaderwatch.agent.hot.phases import PhaseClock
    from loaderwatch.agent.hot.samples import SampleClock, TimedIndices
else:
    DeviceClock, Pass = _chosen.DeviceClock, _chosen.Pass
    PhaseClock, SampleClock = _chosen.PhaseClock, _chosen.SampleClock
    CallsOf, TimedCall = _chosen.CallsOf, _chosen.TimedCall
    TimedCollections, noted_collate = _chosen.TimedCollections, _chosen.noted_collate
    TimedIndices = _chosen.TimedIndices

__all__ = [
    "CallsOf",
    "DeviceClock",
    "Pass",
    "PhaseClock",
    "SampleClock",
    "TimedCall",
    "TimedCollections",
    "TimedIndices",
    "guard_last_stack",
    "guard_stacks",
    "nexts_on_the_stack",
    "noted_collate",
    "timed_fetch",
    "timed_next",
]


def timed_next(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make a ``__next__`` that reports calls of the iterator's own one to the epoch in ``_loaderwatch``."""
    return _chosen.timed_next(call, _caught, _failed)  # type: ignore[no-any-return]


def timed_fetch(call: Callable[..., Any]) -> Callable[..., Any]:
    """Make a ``fetch`` that reports each call of the fetcher's own one to the clock in ``_loaderwatch``."""
    return _chosen.timed_fetch(call, guard, _swallowed)  # type: ignore[no-any-return]


def nexts_on_the_stack() -> int:
    """Return how many calls of our ``__next__`` are on this thread's stack."""
    return _chosen.nexts_on_the_stack()  # type: ignore[no-any-return]


def _failed(epoch: Any, error: BaseException) -> None:
    """Note the error of the iterator's own ``__next__``, which may be StopIteration."""
    try:
        epoch.fail(error)
        leave_out_ours(error)
    except Exception as fault:  # noqa: BLE001 - the guard's seam
        guard.note(fault)


def _caught(epoch: Any, error: BaseException) -> None:
    """Pass a fault in our part of ``__next__`` to the guard; an interrupt ends the wait and reaches training.

    Raises:
        BaseException: a signal handler raised it while our code ran.
    """
    try:
        if not isinstance(error, Exception):
            raise error
        guard.note(error)
    except BaseException:
        epoch.fail(error)
        raise


def _swallowed(clock: Any, error: BaseException) -> None:
    """Pass a fault in our part of a fetch to the guard.

    Raises:
        BaseException: a signal handler raised it while our code ran.
    """
    if not isinstance(error, Exception):
        raise error
    guard.note(error)
