"""Names and choices that the messages about data waits share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from loaderwatch.core.answers import Text
from loaderwatch.detect.measures.stacks import Frame, awaited

_GIVERS: Final = {"a child process": "child", "a pipe": "pipe", "the network": "network"}


def code_line(frame: Frame | None) -> Text | None:
    """Return a line of code as a parameter of a message; None if no line is known."""
    return None if frame is None else frame.text


def giver(frames: Sequence[Frame], wchan: str) -> str:
    """Return what a process waits for, in the message ``awaited``: "child", "pipe", "network", "answer"."""
    return _GIVERS.get(awaited(frames, wchan), "answer")
