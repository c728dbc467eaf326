"""The recent past of a run, kept in memory: envelopes in, immutable windows out."""

from __future__ import annotations

from dataclasses import dataclass

from loaderwatch.core.wire import Envelope
from loaderwatch.detect.window import RunWindow


@dataclass(frozen=True)
class RunTotals:
    """Sums over the run as far as this builder has seen it, by rank."""

    steps: dict[int, int]
    wait_s: dict[int, float]
    step_s: dict[int, float]
    epochs: dict[int, int]
    boundary_s: dict[int, float]
    lost_records: int


class WindowBuilder:
    """Gathers envelopes of one run. Not thread-safe; the windows it gives may be read from any thread."""

    def __init__(self, run_id: str) -> None:
        raise NotImplementedError

    def add(self, envelope: Envelope) -> None:
        """Take in an envelope, each once, in any order."""
        raise NotImplementedError

    def window(self, now_ns: int | None = None) -> RunWindow:
        """The last ten minutes; ``now_ns`` (UTC) defaults to the newest envelope's ``made_ns``."""
        raise NotImplementedError

    def totals(self) -> RunTotals:
        """Sums since the run began. After a server restart call ``seed(store.totals(run_id))`` first."""
        raise NotImplementedError
