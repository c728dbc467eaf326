"""An entry of ``gc.callbacks`` that times the collector's pauses, in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from loaderwatch.agent.hot.layout import NOTABLE_PAUSE_NS
from loaderwatch.core.clock import monotonic_ns


class TimedCollections:
    """Reports the notable pauses.

    Python prints and drops the errors of such a callback. The first bytecode of the callback runs the
    handlers of signals that arrived during the collection, so a Ctrl-C can be lost here. The compiled version
    runs no bytecode and reports the pause right afterwards.
    """

    def __init__(self, tell: Callable[[int, int, int, int], object]) -> None:
        """Args: ``tell`` receives a pause's begin (monotonic ns), length (ns), generation, freed objects."""
        self._tell = tell
        self._began = 0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        """Note the begin ("start") or the end of a collection."""
        if phase == "start":
            self._began = monotonic_ns()
            return
        began_ns, self._began = self._began, 0
        pause_ns = monotonic_ns() - began_ns
        if began_ns and pause_ns >= NOTABLE_PAUSE_NS:
            self._tell(began_ns, pause_ns, info.get("generation", -1), info.get("collected", -1))
