"""The place in the script where each DataLoader was made, noted as its constructor returns.

It tells whether a loader was made anew by the same line, and what the script calls it. This module does not import torch,
because it is also used while torch is being imported.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from loaderwatch.agent.frames import leave_out_ours
from loaderwatch.agent.guard import shield
from loaderwatch.agent.source import frames_outside, is_script
from loaderwatch.core.clock import monotonic_ns

MOST_CALLS: Final = 4
"""How many of the script's functions on the stack are noted, from the one that makes the loader outwards."""


class Made(NamedTuple):
    """How a loader was made. It keeps code and positions, not frames, whose variables would stay alive."""

    at_ns: int
    line: tuple[str, int] | None  # the script's innermost line; a library's where no script is on the stack
    calls: tuple[
        tuple[CodeType, int], ...
    ] = ()  # the script's call and those around it; empty if a library made the loader


_made: Final[dict[int, tuple[weakref.ref[Any], Made]]] = {}
_hooked: tuple[Any, Any, Any] | None = None  # the class, its own constructor, ours


def install(kind: Any) -> None:
    """Note from now on where loaders of this class are made."""
    global _hooked
    if _hooked is not None:
        return
    own = kind.__init__
    note, leave_out = shield(_note), shield(leave_out_ours)

    @functools.wraps(own)
    def __init__(self: Any, /, *arguments: Any, **options: Any) -> None:
        try:
            own(self, *arguments, **options)
        except BaseException as error:
            leave_out(error)
            raise
        if _hooked is not None:
            note(self)

    kind.__init__ = __init__
    _hooked = kind, own, __init__


def remove() -> None:
    """Give the class its own constructor back."""
    global _hooked
    if _hooked is None:
        return
    kind, own, ours = _hooked
    _hooked = None
    _made.clear()
    if vars(kind).get("__init__") is ours:  # with another hook on top, ours stays and does nothing
        kind.__init__ = own


def made(loader: Any) -> Made | None:
    """Return how a loader was made; None where the hook did not see it."""
    entry = _made.get(id(loader))
    return entry[1] if entry is not None and entry[0]() is loader else None


def here() -> Made:
    """Return the present place, for an object that is handed over now and whose construction was not seen."""
    return Made(monotonic_ns(), _line(frames_outside()))


def _note(loader: Any) -> None:
    key = id(loader)
    ref = weakref.ref(loader, lambda _: _made.pop(key, None))
    constructors = {getattr(vars(kind).get("__init__"), "__code__", None) for kind in type(loader).__mro__}
    frames = [frame for frame in frames_outside() if frame.f_code not in constructors]
    calls = []
    for frame in frames[:MOST_CALLS]:
        if not is_script(frame.f_code.co_filename):
            break
        calls.append((frame.f_code, frame.f_lasti))
    _made[key] = ref, Made(monotonic_ns(), _line(iter(frames)), tuple(calls))


def _line(frames: Iterator[FrameType]) -> tuple[str, int] | None:
    innermost = None
    for frame in frames:
        innermost = innermost or frame
        if is_script(frame.f_code.co_filename):
            return frame.f_code.co_filename, frame.f_lineno
    return None if innermost is None else (innermost.f_code.co_filename, innermost.f_lineno)
