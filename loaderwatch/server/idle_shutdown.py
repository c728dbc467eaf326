"""How long this server stays: whether it is used, and its end when the owner asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from loaderwatch.core.message import Text

LEAST_IN_HOURS_S: Final = 360
"""Idle times from this many seconds on are shown in hours; it is a tenth of one."""
SERVER_PATH: Final = "/api/v1/server"
"""The path that says which server this is. Such a request does not count as use of the server."""


@dataclass(slots=True)
class Lifetime:
    """The time of the last report or look; the server leaves ``idle_s`` after it, if given."""

    idle_s: float | None = None
    started_at: float = field(default_factory=time.time)
    end: Callable[[], None] | None = None  # ends the process; None if the application runs in another process
    _seen_at: float = field(default_factory=time.monotonic)

    def seen(self) -> None:
        """Note that a run reports or a person looks now."""
        self._seen_at = time.monotonic()

    def left_s(self) -> float | None:
        """Return the seconds until an unused server leaves: None if it stays, below 0 if it is overdue."""
        return None if self.idle_s is None else self._seen_at + self.idle_s - time.monotonic()

    @property
    def idle(self) -> Text:
        """The idle time after which the server leaves, as text for people."""
        assert self.idle_s is not None
        hours = self.idle_s / 3600 if self.idle_s >= LEAST_IN_HOURS_S else None
        return Text("idle-time", {"hours": hours, "seconds_s": self.idle_s})
