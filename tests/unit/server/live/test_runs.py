"""When the detectors look at a live run."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loaderwatch.detect.finding import Finding
from loaderwatch.server.alerts.notify import Notifier
from loaderwatch.server.alerts.recipients import Recipient, Terms
from loaderwatch.server.live.event_stream import Hub, RunState
from loaderwatch.server.live.run import LiveRun
from loaderwatch.server.live.runs import LiveRuns, _Times
from loaderwatch.server.store.duckdb import DuckDBStore
from tests.fakes.feed import Feed
from tests.fakes.runs import envelope
from tests.fakes.webhook import Webhook
from tests.unit.server.live.test_run import hang
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize(
    ("waited_s", "pass_s", "looking", "stands", "begins"),
    [
        (0.8, 0.0, False, False, False),
        (1.0, 0.0, False, False, True),
        (1.2, 0.0, True, False, False),  # both compute, and side by side each takes twice as long
        (1.5, 0.0, True, False, True),  # looks that never end must not put them off
        (1.4, 1.5, False, True, False),  # very many ranks, of which one stands: half of the time
        (1.5, 1.5, False, True, True),
        (1.8, 0.1, False, False, False),  # all of them go on: a twentieth of the time
        (1.9, 0.1, False, False, True),
        (2.9, 0.6, False, False, False),  # but three seconds are enough
        (3.0, 0.6, False, False, True),
        (4.4, 1.5, False, False, False),  # where a pass takes less than a third of that
        (4.5, 1.5, False, False, True),
    ],
)
def test_detectors_begin_between_looks_and_rest_as_long_as_they_take(
    tmp_path: Path, waited_s: float, pass_s: float, looking: bool, stands: bool, begins: bool
) -> None:
    store = DuckDBStore(tmp_path)

    async def detecting() -> bool:
        runs = LiveRuns(store, Hub(), Notifier([]), lambda: "http://here")
        runs.take(envelope(1), 1)
        run = runs.get("run-1")
        assert run is not None
        run.undetected, run.stands, run.last_detect_s = True, stands, pass_s
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


class SlowLook(LiveRun):
    """A run that a look takes a while at, as at ten thousand ranks."""

    def look(self) -> RunState:
        time.sleep(0.2)
        return super().look()


def test_a_look_rests_as_long_as_it_took(tmp_path: Path) -> None:
    """Envelopes are decoded in the same interpreter."""
    store = DuckDBStore(tmp_path)

    async def looking() -> list[bool]:
        runs = LiveRuns(store, Hub(), Notifier([]), lambda: "http://here", make=SlowLook)
        store.append([envelope(1)])
        runs.take(envelope(1), 1)
        run = runs.get("run-1")
        assert run is not None
        times = runs._times["run-1"] = _Times()
        await runs._look_once(run, times)
        now = time.monotonic()
        assert times.rests_until > now + 0.15
        runs.take(envelope(2), 1)
        begun = []
        for rests_until in (now + 9.0, now):
            times.looked_at, times.rests_until, times.looking = now - 1.0, rests_until, False
            runs._schedule(run)
            begun.append(times.looking)
        await runs.stop()
        return begun

    try:
        assert asyncio.run(looking()) == [False, True]
    finally:
        store.close()


def test_reminders_and_one_summary_for_each_attempt(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    now_s = 0.0
    feed = Feed()
    found: list[Finding] = []

    async def told(hook: Webhook) -> None:
        nonlocal now_s
        terms = Terms(remind_every_s=3600.0, summary=True)
        notifier = Notifier([Recipient(hook.url, terms)], monotonic=lambda: now_s)
        notifier.start()
        make = partial(LiveRun, detector=lambda _: list(found))
        runs = LiveRuns(store, Hub(), notifier, lambda: "http://here", make=make)

        async def send(**more: Any) -> LiveRun:
            envelope = feed.envelope(**more)
            store.append([envelope])
            runs.take(envelope, 1)
            live = runs.get("run-1")
            assert live is not None
            await runs._look(live)
            await runs._detect(live)
            return live

        found.append(hang())
        live = await send(steps=20)
        for _ in range(3):
            now_s += 1900
            runs._remind()
        live.change(lambda book: book.acknowledge(live.firing()[0].id, time.time_ns()))
        now_s += 9000
        runs._remind()
        found.clear()
        for _ in range(3):
            await send(steps=0, state="finished", final=True)
        await runs.stop()
        await asyncio.to_thread(notifier.close, PATIENCE_S)

    try:
        with Webhook() as hook:
            asyncio.run(told(hook))
            titles = [message["title"] for message in hook.messages]
    finally:
        store.close()
    assert titles[0] == "Rank 0 hangs. (train.py)"
    assert titles[1].startswith("Still open after ")
    assert titles[2] == "Resolved: Rank 0 hangs. (train.py)"
    assert titles[3].startswith("Finished: train.py, 20 steps in ")
    assert len(titles) == 4
