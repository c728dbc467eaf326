"""Names and choices that the messages about data waits share."""

from __future__ import annotations

from loaderwatch.core.answers import Text
from loaderwatch.detect.measures.stacks import Frame


def code_line(frame: Frame | None) -> Text | None:
    """Return a line of code as a parameter of a message; None if no line is known."""
    return None if frame is None else frame.text
