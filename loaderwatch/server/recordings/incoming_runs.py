"""Imports of runs over HTTP, one part per request. An import that stops is given up and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.wire import MAX_ENVELOPE_BYTES
from loaderwatch.server.store.protocol import Arrival, Store
from loaderwatch.server.store.sql.transfer import unpack_part, unpack_rest

MOST_BYTES: Final = MAX_ENVELOPE_BYTES + 2**20
"""Largest request with a part: at most an envelope's worth beyond the size of a part (``PART_BYTES``)."""
AT_ONCE: Final = 2
"""How many runs may be imported at the same time. Each takes about 40 MB of memory."""
GIVEN_UP_S: Final = 60.0


class OutOfTurn(LoaderwatchError):
    """The part does not follow the previous one."""

    def __init__(self, run_id: str, expected: int | None) -> None:
        wanted = "its first part, 0" if expected is None else f"part {expected}"
        super().__init__(f"of run {run_id} {wanted} is expected now; begin again")


class TooManyArrive(LoaderwatchError):
    """Too many other runs are being imported."""


@dataclass
class _Coming:
    arrival: Arrival
    next: int = 0  # the number of the expected part
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    timer: asyncio.TimerHandle | None = None
    over: bool = False


class Arrivals:
    """The runs that are being imported. Use it on the event loop; the store works in threads."""

    def __init__(self, store: Store, arrived: Callable[[str], None]) -> None:
        """Begin without runs. ``arrived`` is called with the id of each complete run."""
        self._store = store
        self._arrived = arrived
        self._coming: dict[str, _Coming] = {}
        self._beginning = asyncio.Lock()
        self._given_up: set[asyncio.Task[None]] = set()

    async def take(self, run_id: str, number: int, body: bytes, *, last: bool) -> None:
        """Store a part, or the rest if ``last``. Part 0 begins an import. The newest part may be sent again.

        Raises:
            RunExists, WireError, StoreError, UnknownRun: the import failed and was removed.
            OutOfTurn: another part is expected.
            TooManyArrive
        """
        if number == 0:
            await self._begin(run_id)
        coming = self._coming.get(run_id)
        if coming is None:
            raise OutOfTurn(run_id, None)
        async with coming.lock:
            if coming.over:
                raise OutOfTurn(run_id, None)
            if number == coming.next - 1:
                return
            if number != coming.next:
                raise OutOfTurn(run_id, coming.next)
            try:
                await asyncio.to_thread(_take, coming.arrival, run_id, body, last)
            except BaseException:
                await self._give_up(run_id, coming)
                raise
            coming.next += 1
            if last:
                self._forget(run_id, coming)
                self._arrived(run_id)
            else:
                self._wait_for_next(run_id, coming)

    async def _begin(self, run_id: str) -> None:
        async with self._beginning:
            if (previous := self._coming.get(run_id)) is not None:
                async with previous.lock:
                    await self._give_up(run_id, previous)
            if len(self._coming) >= AT_ONCE:
                raise TooManyArrive(f"{len(self._coming)} runs are coming in; try again when they are there")
            coming = _Coming(await asyncio.to_thread(self._store.arrive, run_id))
            self._coming[run_id] = coming
            self._wait_for_next(run_id, coming)

    def _wait_for_next(self, run_id: str, coming: _Coming) -> None:
        if coming.timer is not None:
            coming.timer.cancel()
        give_up = partial(self._give_up_later, run_id, coming)
        coming.timer = asyncio.get_running_loop().call_later(GIVEN_UP_S, give_up)

    def _give_up_later(self, run_id: str, coming: _Coming) -> None:
        if coming.lock.locked():  # a part is being stored
            self._wait_for_next(run_id, coming)
            return
        task = asyncio.get_running_loop().create_task(self._give_up(run_id, coming))
        self._given_up.add(task)
        task.add_done_callback(self._given_up.discard)

    async def _give_up(self, run_id: str, coming: _Coming) -> None:
        if coming.over:
            return
        self._forget(run_id, coming)
        await asyncio.to_thread(coming.arrival.give_up)

    def _forget(self, run_id: str, coming: _Coming) -> None:
        coming.over = True
        if coming.timer is not None:
            coming.timer.cancel()
        if self._coming.get(run_id) is coming:
            del self._coming[run_id]

    async def stop(self) -> None:
        """Give up all imports."""
        for run_id, coming in list(self._coming.items()):
            async with coming.lock:
                await self._give_up(run_id, coming)


def _take(arrival: Arrival, run_id: str, body: bytes, last: bool) -> None:
    if last:
        arrival.finish(unpack_rest(body, run_id))
    else:
        arrival.add(unpack_part(body))
