"""Runs change hands as servers come and go: heartbeats, then the runs to release and to take over.

A run is released with its alerts stored. A takeover is like a start of this
server: the run is claimed, so that its former owner writes no more, then read from the store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.server.live.runs import FORGET_S, LiveRuns, goes_on
from loaderwatch.server.peers.client import PeerClient
from loaderwatch.server.store.clickhouse import ClickHouseStore
from loaderwatch.server.store.clickhouse.server_heartbeats import BEAT_S, Server, View

_log: Final = logging.getLogger(__name__)

AT_ONCE: Final = 2
"""How many runs are taken over at the same time."""
LEAVE_S: Final = 3.0


class Handover:
    """Keeps the live runs equal to the runs that this server owns. Use it on the event loop."""

    def __init__(self, store: ClickHouseStore, live: LiveRuns, client: PeerClient) -> None:
        self._store = store
        self._live = live
        self._client = client
        self._settled: frozenset[Server] | None = None  # the servers for which all runs have the right owner
        self._view: View | None = None
        self._news = asyncio.Event()
        self._beats = ThreadPoolExecutor(1, thread_name_prefix="loaderwatch-heartbeat")  # only for heartbeats
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="loaderwatch-handover")
        self._tasks: list[asyncio.Task[None]] = []
        self._said = ""

    def start(self) -> None:
        """Start heartbeats and handovers."""
        self._tasks = [
            asyncio.create_task(self._beat(), name="loaderwatch-heartbeat"),
            asyncio.create_task(self._follow(), name="loaderwatch-handover"),
        ]

    async def leave(self) -> None:
        """Release all runs and tell the other servers, if any: they continue at once."""
        await self._end_tasks()
        self._client.keep_only(())
        if self._view is None or len(self._view.servers) < 2:
            return
        for live in self._live.all():
            await self._live.hand_over(live.run_id)
        leaving = asyncio.get_running_loop().run_in_executor(self._threads, self._store.leave)
        with suppress(LoaderwatchError, asyncio.TimeoutError):  # else they give this server up after a while
            await asyncio.wait_for(leaving, LEAVE_S)

    async def stop(self) -> None:
        """Stop. The store leaves the servers when it is closed."""
        await self._end_tasks()
        for threads in (self._beats, self._threads):
            await asyncio.to_thread(threads.shutdown, cancel_futures=True)
        self._client.keep_only(())

    async def _end_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _beat(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began_s = time.monotonic()
            try:
                self._view = await loop.run_in_executor(self._beats, self._store.beat)
            except LoaderwatchError as error:
                _log.debug("no heartbeat: %s", error)  # the database has logged it
            except Exception:  # noqa: BLE001 - the next heartbeat follows in a second
                _log.exception("a heartbeat failed")
            else:
                self._news.set()
            await asyncio.sleep(max(0.0, began_s + BEAT_S - time.monotonic()))

    async def _follow(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            assert self._view is not None
            try:
                await self._settle(self._view)
            except LoaderwatchError as error:
                if str(error) != self._said:
                    self._said = str(error)
                    _log.warning("runs are handed over again in a second: %s", error)
            except Exception:  # noqa: BLE001 - the next heartbeat tries again
                _log.exception("runs could not be handed over")

    async def _settle(self, view: View) -> None:
        loop = asyncio.get_running_loop()
        moved = view.servers != self._settled
        if moved:
            if self._settled is not None:
                _log.warning(
                    "servers on this database: %s", ", ".join(sorted(peer.url for peer in view.servers))
                )
            self._client.keep_only({server.url for server in view.servers})
        for live in self._live.all():  # also one whose last commit was in progress when it moved
            if not view.owns(live.run_id):
                await self._live.hand_over(live.run_id)
        if moved:
            await loop.run_in_executor(self._threads, self._store.others_came_or_went)
            self._live.note_stored(list(self._store.cards.known))
            self._settled = view.servers
        for run_id in self._store.lost():
            await self._live.hand_over(run_id)
            self._store.let_go([run_id])
        if view.may_claim:
            await self._take_over(view)

    async def _take_over(self, view: View) -> None:
        now_ns = time.time_ns()
        wanted = [
            run_id
            for run_id, card in self._store.cards.heard_since(now_ns - int(FORGET_S * 1e9)).items()
            if run_id not in self._live and (card is None or goes_on(card, now_ns))
        ]
        results = await asyncio.gather(
            *(self._take_one(run_id, now_ns) for run_id in wanted), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result  # the other runs are taken over nevertheless

    async def _take_one(self, run_id: str, now_ns: int) -> None:
        loop = asyncio.get_running_loop()
        run = await loop.run_in_executor(self._threads, self._store.take_over, run_id)
        if run_id not in self._live and goes_on(run, now_ns):
            self._live.adopt(run)
            _log.info("run %s is taken over", run_id)
