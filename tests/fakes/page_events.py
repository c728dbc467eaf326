"""The real hub of live events for the fake server, so that pages hear what a real server would send."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from loaderwatch.server.live.event_stream import Hub, RunState
from tests.fakes.page_answers import summary
from tests.fakes.page_data import FakeRun
from tests.waiting import PATIENCE_S


class Broadcast:
    """A hub in an event loop of its own, and the runs' states that it publishes every ``tick_s``."""

    def __init__(self, runs: Callable[[], Iterable[FakeRun]], gone: Callable[[], set[str]]) -> None:
        self._runs = runs
        self._gone = gone
        self.tick_s = 1.0
        self.hub = Hub()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def follow(self, run: FakeRun, last_event_id: str | None) -> Iterator[bytes]:
        """The run's events, as they come."""
        self._call(self.hub.publish, run.run_id, state_of(run)).result(PATIENCE_S)
        events = self.hub.stream(run.run_id, last_event_id)
        try:
            while True:
                event = asyncio.run_coroutine_threadsafe(_next(events), self._loop).result(PATIENCE_S)
                if event is None:
                    return
                yield event
        finally:
            with suppress(RuntimeError):  # the loop has been stopped
                asyncio.run_coroutine_threadsafe(events.aclose(), self._loop)  # type: ignore[attr-defined]

    def cut(self) -> None:
        """End the open streams."""
        self._call(self.hub.cut)

    def stop(self) -> None:
        """End every stream, and the loop."""
        self._call(self.hub.close).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        publishing = self._loop.create_task(self._publish())
        try:
            self._loop.run_forever()
        finally:
            publishing.cancel()
            self._loop.run_until_complete(asyncio.gather(publishing, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()

    async def _publish(self) -> None:
        published = 0.0
        while True:
            await asyncio.sleep(0.05)
            for run in list(self._runs()):
                if run.run_id in self._gone():
                    self.hub.gone(run.run_id)
                elif time.monotonic() - published >= self.tick_s and self.hub.is_followed(run.run_id):
                    self.hub.publish(run.run_id, state_of(run))
            if time.monotonic() - published >= self.tick_s:
                published = time.monotonic()

    def _call(self, what: Callable[..., None], *args: Any) -> Future[None]:
        async def called() -> None:
            what(*args)

        return asyncio.run_coroutine_threadsafe(called(), self._loop)


def state_of(run: FakeRun) -> RunState:
    """What the live stream says of a run at this moment."""
    wall = time.time()
    bare = [f | {"stacks": [s | {"text": ""} for s in f["stacks"]]} for f in run.findings]
    return RunState(json.dumps(summary(run, wall)).encode(), json.dumps(bare).encode(), run.now(wall))


async def _next(events: Any) -> bytes | None:
    return await anext(events, None)
