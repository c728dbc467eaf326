"""Hangs across ranks: everybody waits for somebody. S44 S45 S46, and a lone process that stands still."""

from __future__ import annotations

from loaderwatch.detect.finding import Finding
from loaderwatch.detect.limits import Limits
from loaderwatch.detect.progress import Stuck
from loaderwatch.detect.window import RunWindow


def detect(window: RunWindow, found: list[Stuck], limits: Limits) -> list[Finding]:
    """At most one finding about ranks that are stuck outside their loaders."""
    return []
