"""An entry of ``gc.callbacks`` that times the collector's pauses, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loaderwatch.agent.hot.layout import NOTABLE_PAUSE_NS
from loaderwatch.core.clock import monotonic_ns


class TimedCollections:
    """Tells the notable pauses.

    Python prints and drops what such a callback raises. A signal that came during the collection has its handler run by the
    callback's first bytecode, so here a Ctrl-C can be lost; ``_hot.c`` runs no bytecode, and tells a pause right afterwards.
    """

    def __init__(self, tell: Callable[[int, int, int, int], object]) -> None:
        """Args: ``tell`` receives when a pause began (monotonic, ns), how long it took (ns), the generation, and what was freed."""
        self._tell = tell
        self._began = 0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Be called as a collection begins ("start") and as it ends."""
        if phase == "start":
            self._began = monotonic_ns()
            return
        began, self._began = self._began, 0
        took = monotonic_ns() - began
        if began and took >= NOTABLE_PAUSE_NS:
            self._tell(began, took, info.get("generation", -1), info.get("collected", -1))
