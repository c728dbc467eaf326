"""Notes where in the script each DataLoader was constructed.

The place shows whether the same line recreated a loader, and which name the script gives to the loader. This
module does not import torch, because it is also used while torch is being imported.
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
"""How many of the script's functions on the stack are noted, from the construction outwards."""


class Made(NamedTuple):
    """How a loader was constructed. Holds code and positions, because frames would keep variables alive."""

    at_ns: int
    line: tuple[str, int] | None  # the script's innermost line; a library's if no script is on the stack
    # The script's call and the calls around it; empty if a library constructed the loader.
    calls: tuple[tuple[CodeType, int], ...] = ()


_made: Final[dict[int, tuple[weakref.ref[Any], Made]]] = {}
_hooked: tuple[Any, Any, Any] | None = None  # the class, its own constructor, ours


def install(kind: Any) -> None:
    """Note from now on where loaders of this class are constructed."""
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
    """Restore the class's own constructor."""
    global _hooked
    if _hooked is None:
        return
    kind, own, ours = _hooked
    _hooked = None
    _made.clear()
    if vars(kind).get("__init__") is ours:  # with another hook on top, ours stays and does nothing
        kind.__init__ = own


def made(loader: Any) -> Made | None:
    """Return how a loader was constructed; None if the hook did not see it."""
    entry = _made.get(id(loader))
    return entry[1] if entry is not None and entry[0]() is loader else None


def here() -> Made:
    """Return the current place, for an object whose construction was not seen."""
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
