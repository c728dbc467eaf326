"""Removes our frames from the tracebacks of the user's errors: people compare them, and tools match them."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, TracebackType
from typing import Final

_OURS: Final = str(Path(__file__).parent)


def leave_out_ours(error: BaseException) -> None:
    """Remove the frames of this package from an error's traceback, in place.

    The frame that catches the error is removed, too, because a bare ``raise`` does not add it again. Before
    Python 3.11 a bare ``raise`` restores the traceback as it was caught, so this one frame stays.
    """
    trace = error.__traceback__
    while trace is not None and is_ours(trace.tb_frame.f_code):
        trace = trace.tb_next
    trim_frames(trace)
    error.__traceback__ = trace


def trim_frames(traceback: TracebackType | None) -> None:
    """Remove the frames of this package from a traceback, except the first frame, in place."""
    while traceback is not None:
        inner = traceback.tb_next
        while inner is not None and is_ours(inner.tb_frame.f_code):
            inner = inner.tb_next
        traceback.tb_next = inner
        traceback = inner


def is_ours(code: CodeType) -> bool:
    """Whether a frame's code lies in this package."""
    return is_our_file(code.co_filename)


def is_our_file(name: str) -> bool:
    """Whether a file lies in this package."""
    return name.startswith(_OURS)
