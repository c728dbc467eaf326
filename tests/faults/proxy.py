"""A network that misbehaves: a real HTTP proxy between streamers and a server, in a thread of the test.

It repeats requests, answers late, and hangs up after the server has the envelope but before the streamer has
the answer. It also holds back envelopes that it has acknowledged, and delivers them late and out of order.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter
from contextlib import suppress
from typing import Final

_MAX_BODY: Final = 32 * 2**20


class Proxy:
    """``with Proxy(port_of_the_server, dice) as proxy``: streamers are sent to ``proxy.url``.

    ``faults``: the chance of each per envelope: ``repeat``, ``delay`` (up to 1 s), ``cut`` (after delivery),
    ``drop`` (before delivery), ``hold`` (answered, delivered later, and again after newer ones).
    """

    def __init__(self, port: int, dice: random.Random, **faults: float) -> None:
        self.faults = faults
        self.done: Counter[str] = Counter()
        self._port = port
        self._dice = dice
        self._held: list[bytes] = []
        self._old: list[bytes] = []  # some that the server has
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def release(self, *, old: bool = False) -> int:
        """Deliver held-back envelopes, newest first; with ``old`` also some that the server already has."""
        return asyncio.run_coroutine_threadsafe(self._release(old), self._loop).result(60)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._ready.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.05))
        self._server.close()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await _message(reader)) is not None:
                answer = await self._handle(request)
                if answer is None:
                    break  # hang up
                writer.write(answer)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            with suppress(OSError, RuntimeError):
                writer.close()

    async def _handle(self, request: bytes) -> bytes | None:
        if not request.startswith(b"POST"):
            return await self._forward(request)
        self.done["posts"] += 1
        if self._hits("hold"):
            self._held.append(request)
            return _answer({"stored_seq": 1})
        if self._hits("drop"):
            return None
        if self._hits("delay"):
            await asyncio.sleep(self._dice.uniform(0.05, 1.0))
        if self._hits("repeat"):
            await asyncio.gather(self._forward(request), self._forward(request))
        answer = await self._forward(request)
        if len(self._old) < 10:
            self._old.append(request)
        return None if self._hits("cut") else answer

    def _hits(self, fault: str) -> bool:
        hit = self._dice.random() < self.faults.get(fault, 0.0)
        self.done[fault] += hit
        return hit

    async def _release(self, old: bool) -> int:
        late = [*reversed(self._held), *(reversed(self._old) if old else ())]
        self._held = []
        for request in late:
            answer = await self._forward(request)
            assert answer is not None
            assert b" 200 " in answer[:20], answer
        return len(late)

    async def _forward(self, request: bytes) -> bytes | None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return None
        try:
            writer.write(request)
            await writer.drain()
            return await _message(reader)
        except (OSError, asyncio.IncompleteReadError):
            return None
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes | None:
    """A whole request or answer; None when the other side has hung up."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    length = 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    assert length <= _MAX_BODY
    return head + await reader.readexactly(length)


def _answer(body: object) -> bytes:
    text = json.dumps(body).encode()
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text
    )
