"""How long this server stays: whether anybody uses it, and its end when the owner asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

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

    def in_words(self) -> str:
        """Return the idle time in words, after which the server leaves."""
        assert self.idle_s is not None
        return f"{self.idle_s / 3600:g} h" if self.idle_s >= 360 else f"{self.idle_s:g} s"
