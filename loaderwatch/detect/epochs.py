"""Epoch boundaries: what starting, resetting and ending an epoch's iterator costs. Code ``epoch-boundary``."""

from __future__ import annotations

from loaderwatch.detect.finding import Finding
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.window import RunWindow

CODE = "epoch-boundary"


def detect(window: RunWindow, limits: Limits) -> list[Finding]:
    """One finding per loader whose epoch boundaries cost too much."""
    return []
