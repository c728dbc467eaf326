"""When the detectors look at a live run."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from loaderwatch.server.alerts.notify import Notifier
from loaderwatch.server.http.events import Hub
from loaderwatch.server.live.runs import LiveRuns, _Times
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.runs import envelope


@pytest.mark.parametrize(
    ("waited_s", "pass_s", "looking", "begins"),
    [
        (0.8, 0.0, False, False),
        (1.0, 0.0, False, True),
        (1.2, 0.0, True, False),  # both compute, and side by side each takes twice as long
        (1.5, 0.0, True, True),  # looks that never end must not put them off
        (1.5, 0.6, False, False),  # a thousand ranks: a third of the time at most
        (1.8, 0.6, False, True),
    ],
)
def test_detectors_begin_between_looks_and_rest_as_long_as_they_take(
    tmp_path: Path, waited_s: float, pass_s: float, looking: bool, begins: bool
) -> None:
    store = DuckDBStore(tmp_path)

    async def detecting() -> bool:
        runs = LiveRuns(store, Hub(), Notifier([]), lambda: "http://here")
        runs.take(envelope(1), 1)
        run = runs.get("run-1")
        assert run is not None
        run.undetected, run.last_detect_s = True, pass_s
        now = time.monotonic()
        times = runs._times["run-1"] = _Times(
            looked_at=now, detected_at=now - waited_s - 1e-3, looking=looking
        )
        runs._schedule(run)
        begun = times.detecting
        await runs.stop()
        return begun

    try:
        assert asyncio.run(detecting()) == begins
    finally:
        store.close()
