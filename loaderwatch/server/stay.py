"""How long this server stays: whether anybody uses it, and its end when the owner asks for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SERVER_PATH: Final = "/api/v1/server"
"""Asking which server this is does not count as looking at it."""


@dataclass(slots=True)
class Stay:
    """When somebody reported or looked last. With ``idle_s`` the server leaves that long after."""

    idle_s: float | None = None
    started_at: float = field(default_factory=time.time)
    end: Callable[[], None] | None = None  # of the process; None where the application runs in another's
    _seen_at: float = field(default_factory=time.monotonic)

    def seen(self) -> None:
        """Somebody reports or looks now."""
        self._seen_at = time.monotonic()

    def left_s(self) -> float | None:
        """Seconds until it leaves if nobody comes; None when it stays, below 0 when it should be gone."""
        return None if self.idle_s is None else self._seen_at + self.idle_s - time.monotonic()

    def in_words(self) -> str:
        """The time after which it leaves."""
        assert self.idle_s is not None
        return f"{self.idle_s / 3600:g} h" if self.idle_s >= 360 else f"{self.idle_s:g} s"
