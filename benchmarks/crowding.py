"""How crowded the machine was for a while: the share of that time in which some task waited for a CPU."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

CROWDED_RATIO: Final = 0.5
"""From here on seconds that were measured say more about the machine than about what was measured."""
_PRESSURE: Final = Path("/proc/pressure/cpu")


class Crowding:
    """Counts from its construction on."""

    def __init__(self, pressure: Path = _PRESSURE) -> None:
        self._pressure = pressure
        self._began = time.monotonic(), self._waited_s()

    def ratio(self) -> float | None:
        """The share up to now, 0 to 1; None where the kernel does not count it."""
        began, waited_s = self._began
        now_s = self._waited_s()
        if waited_s is None or now_s is None:
            return None
        return min(1.0, (now_s - waited_s) / max(1e-9, time.monotonic() - began))

    def _waited_s(self) -> float | None:
        try:
            some = self._pressure.read_text().splitlines()[0]
        except (OSError, IndexError):
            return None
        return int(some.rpartition("total=")[2]) / 1e6
