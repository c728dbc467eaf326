"""Compresses answers and event streams for clients that accept it.

Only our own texts are compressed: JSON, Prometheus' text, events. The page's files are already compressed. No
answer holds a secret next to text of a stranger, which compression could reveal by its length.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST: Final = 700
"""Bytes. A shorter answer fits into one packet anyway."""
_ASIDE: Final = 1 << 16
"""Bytes from which on a thread compresses an answer, so that envelopes and events do not wait."""
_LEVEL: Final = 4
_WHOLE: Final = ("application/json", "text/plain")
_EVENTS: Final = "text/event-stream"
_GZIP: Final = 31  # zlib's code for gzip with the largest window


class Compression:
    """ASGI middleware that compresses the answers of our own routes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; compress its answer if the client accepts gzip."""
        accepted = scope["type"] == "http" and "gzip" in Headers(scope=scope).get("accept-encoding", "")
        await self._app(scope, receive, _Packer(send) if accepted else send)


class _Packer:
    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None  # held back until the length is known
        self._events: Any = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] != "http.response.body":
            await self._send(message)
        elif self._events is not None:
            await self._event(message)
        else:
            await self._body(message)

    async def _begin(self, message: Message) -> None:
        headers = MutableHeaders(scope=message)
        kind = headers.get("content-type", "").partition(";")[0]
        if "content-encoding" in headers or kind not in (*_WHOLE, _EVENTS):
            await self._send(message)
            return
        headers.add_vary_header("accept-encoding")
        if kind == _EVENTS:
            self._events = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
            headers["content-encoding"] = "gzip"
            await self._send(message)
        else:
            self._start = message

    async def _event(self, message: Message) -> None:
        """Send each event at once; later events may refer back to it."""
        more = message.get("more_body", False)
        body = message.get("body", b"")
        packed = self._events.compress(body) + self._events.flush(
            zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH
        )
        if body or not more:
            await self._send({**message, "body": packed})

    async def _body(self, message: Message) -> None:
        start, self._start = self._start, None
        if start is None:
            await self._send(message)
            return
        body = message.get("body", b"")
        if len(body) >= LEAST and not message.get("more_body", False):
            packed = await asyncio.to_thread(_pack, body) if len(body) >= _ASIDE else _pack(body)
            headers = MutableHeaders(scope=start)
            headers["content-encoding"] = "gzip"
            headers["content-length"] = str(len(packed))
            message = {**message, "body": packed}
        await self._send(start)
        await self._send(message)


def _pack(body: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()
