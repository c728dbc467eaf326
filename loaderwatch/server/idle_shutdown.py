"""How long this server stays: whether anybody uses it, and its end when the owner asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from loaderwatch.core.message import Text

LEAST_IN_HOURS_S: Final = 360
"""Seconds from which on people read an idle time in hours: a tenth of one."""
SERVER_PATH: Final = "/api/v1/server"
"""The path that tells which server this is; such a request does not count as using the server."""


@dataclass(slots=True)
class Lifetime:
    """When somebody last reported or looked; the server leaves ``idle_s`` after that, if that is given."""

    idle_s: float | None = None
    started_at: float = field(default_factory=time.time)
    end: Callable[[], None] | None = None  # ends the process; None if the application runs in another process
    _seen_at: float = field(default_factory=time.monotonic)

    def seen(self) -> None:
        """Note that somebody reports or looks now."""
        self._seen_at = time.monotonic()

    def left_s(self) -> float | None:
        """Return the seconds until the server leaves if nobody comes: None if it stays, below 0 if it should be gone."""
        return None if self.idle_s is None else self._seen_at + self.idle_s - time.monotonic()

    @property
    def idle(self) -> Text:
        """Return the idle time after which the server leaves, as people read it."""
        assert self.idle_s is not None
        hours = self.idle_s / 3600 if self.idle_s >= LEAST_IN_HOURS_S else None
        return Text("idle-time", {"hours": hours, "seconds_s": self.idle_s})
