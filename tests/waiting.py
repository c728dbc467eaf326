"""How tests wait (for an event, not for a time) and measure (around what is measured, not by the clock)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

PATIENCE_S: Final = 120.0
"""How long a test waits for something that must come. It is no promise: a machine may be ten times slower
than ours, and only what never comes takes so long. ``benchmarks/`` measures what is promised in seconds."""

_T = TypeVar("_T")


def wait_until(
    what: str, condition: Callable[[], _T | None], patience_s: float = PATIENCE_S, pause_s: float = 0.05
) -> _T:
    """The first true value of ``condition()``."""
    deadline = time.monotonic() + patience_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {patience_s:g} s"
        time.sleep(pause_s)


class Stopwatch:
    """Measures around (or inside) what the agent measures, so that one bounds the other on any machine."""

    def __init__(self) -> None:
        self.taken_ns: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Time what is done inside."""
        began = time.monotonic_ns()
        try:
            yield
        finally:
            self.taken_ns.append(time.monotonic_ns() - began)

    @property
    def total_ns(self) -> int:
        """All of it."""
        return sum(self.taken_ns)
