"""Every live run, ticked on absolute deadlines in worker threads, so that the event loop stays free."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.wire import Envelope
from loaderwatch.server.alerts import Announcement
from loaderwatch.server.events import Hub
from loaderwatch.server.live import LiveRun, Tick
from loaderwatch.server.notify import Notifier
from loaderwatch.server.store.protocol import Store
from loaderwatch.server.wording import message, notice

_log = logging.getLogger(__name__)

TICK_S: Final = 0.5
DETECT_EVERY: Final = 2  # ticks
_QUIET_TICK_S: Final = 2.0  # how often a run without news is looked at, for its age and state
_LINGER_S: Final = 60.0  # an ended run stays in memory that long
_FORGET_S: Final = 900.0  # so does one that is lost
_THREADS: Final = 2

MakeLiveRun = Callable[..., LiveRun]


@dataclass(slots=True)
class TickCounts:
    """How the loop keeps up."""

    ticks: int = 0
    skipped: int = 0
    failed: int = 0
    late_s: float = 0.0


class LiveRuns:
    """The runs that are being heard of. Used from the event loop only; ticks run in its own threads."""

    def __init__(
        self,
        store: Store,
        hub: Hub,
        notifier: Notifier,
        base_url: Callable[[], str],
        *,
        make: MakeLiveRun = LiveRun,
        ended: Callable[[str, dict[str, Any] | None], None] | None = None,
    ) -> None:
        self._store = store
        self._hub = hub
        self._notifier = notifier
        self._base_url = base_url
        self._make = make
        self._ended = ended
        self._runs: dict[str, LiveRun] = {}
        self._stored: set[str] = set()  # runs that had a past before this server met them
        self._ticking: set[str] = set()
        self._ticked_at: dict[str, float] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="loaderwatch-detect")
        self._task: asyncio.Task[None] | None = None
        self._failed: dict[str, str] = {}
        self.counts = TickCounts()

    def all(self) -> list[LiveRun]:
        """Every live run."""
        return list(self._runs.values())

    def get(self, run_id: str) -> LiveRun | None:
        """The live run of this id, None when it is not live."""
        return self._runs.get(run_id)

    def start(self) -> None:
        """Take up runs that were live when the server last stopped, and begin to tick."""
        now_ns = time.time_ns()
        for run in self._store.runs():
            self._stored.add(run.run_id)
            if run.state == "live" and now_ns - run.received_ns < _FORGET_S * 1e9:
                live = self._add(run.run_id)
                live.heard_at -= max(0.0, (now_ns - run.received_ns) / 1e9)
        self._task = asyncio.create_task(self._loop(), name="loaderwatch-live")

    async def stop(self) -> None:
        """Stop ticking and save."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._threads, live.close) for live in self._runs.values()),
            return_exceptions=True,
        )
        self._threads.shutdown(wait=False, cancel_futures=True)

    def take(self, envelope: Envelope) -> None:
        """An envelope is on disk."""
        live = self._runs.get(envelope.run_id) or self._add(envelope.run_id)
        live.take(envelope)

    def _add(self, run_id: str) -> LiveRun:
        def describe(announcement: Announcement) -> str:
            return notice(announcement, run_id, self._base_url())

        live = self._make(run_id, self._store, is_new=run_id not in self._stored, describe=describe)
        self._stored.add(run_id)
        self._runs[run_id] = live
        return live

    async def tick_now(self, live: LiveRun) -> Tick:
        """The run's newest state; waits for its first tick if there was none yet."""
        return live.latest or await self._tick(live, detecting=True)

    def drop(self, run_id: str) -> None:
        """The run was deleted."""
        self._runs.pop(run_id, None)
        self._stored.discard(run_id)
        self._ticked_at.pop(run_id, None)
        self._hub.gone(run_id)

    async def _loop(self) -> None:
        deadline = time.monotonic()
        number = 0
        running: set[asyncio.Task[None]] = set()
        while True:
            deadline += TICK_S
            delay = deadline - time.monotonic()
            if delay < -TICK_S:  # the machine slept, or we did: do not catch up
                self.counts.late_s += -delay
                deadline = time.monotonic()
            await asyncio.sleep(max(0.0, delay))
            number += 1
            for live in list(self._runs.values()):
                if live.run_id in self._ticking:
                    self.counts.skipped += 1
                elif self._is_due(live):
                    task = asyncio.create_task(self._tick_once(live, number % DETECT_EVERY == 0))
                    running.add(task)
                    task.add_done_callback(running.discard)
            if number % 20 == 0:
                self._forget_old()

    def _is_due(self, live: LiveRun) -> bool:
        quiet_s = time.monotonic() - self._ticked_at.get(live.run_id, 0.0)
        return live.has_news or (not live.ended and quiet_s >= _QUIET_TICK_S)

    async def _tick_once(self, live: LiveRun, detecting: bool) -> None:
        try:
            await self._tick(live, detecting=detecting)
            self._failed.pop(live.run_id, None)
        except Exception as error:  # noqa: BLE001 - a fault in one run's detectors must not stop the other runs' ticks
            self.counts.failed += 1
            text = f"{type(error).__name__}: {error}"
            if self._failed.get(live.run_id) != text:  # once a second for hours helps nobody
                self._failed[live.run_id] = text
                known = isinstance(error, LoaderwatchError)
                _log.error(
                    "run %s: this tick failed: %s", live.run_id, text, exc_info=None if known else error
                )

    async def _tick(self, live: LiveRun, *, detecting: bool) -> Tick:
        self._ticking.add(live.run_id)
        self._ticked_at[live.run_id] = time.monotonic()
        try:
            loop = asyncio.get_running_loop()
            tick = await loop.run_in_executor(self._threads, self._work, live, detecting)
        finally:
            self._ticking.discard(live.run_id)
        self.counts.ticks += 1
        self._hub.publish(live.run_id, tick.state)
        self._tell(live.run_id, str(tick.summary.get("name") or live.run_id), tick.announcements)
        return tick

    def _work(self, live: LiveRun, detecting: bool) -> Tick:
        tick = live.tick(time.time_ns(), detecting=detecting)
        if live.ended and self._ended is not None:
            self._ended(live.run_id, tick.summary.get("verdict"))
        return tick

    def _tell(self, run_id: str, name: str, announcements: list[Announcement]) -> None:
        for announcement in announcements:
            self._notifier.post(message(announcement, run_id, name, self._base_url()))

    def _forget_old(self) -> None:
        now = time.monotonic()
        for run_id, live in list(self._runs.items()):
            if run_id in self._ticking or live.has_news:
                continue
            if now - live.heard_at > (_LINGER_S if live.ended else _FORGET_S):
                name = str(live.latest.summary.get("name") or run_id) if live.latest else run_id
                self._tell(run_id, name, live.let_go(time.time_ns()))
                del self._runs[run_id]
                self._ticked_at.pop(run_id, None)
                self._hub.forget(run_id)
