"""An HTTP client for the other servers of a database, which must first prove that they know our token.

Connections stay open for the next request. All work is on the event loop. Answers can be read as they arrive,
since event streams are passed on as well.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final
from urllib.parse import urlsplit

import h11

from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.server_trust import (
    IDENTITY_PATH,
    MAX_PROOF_BYTES,
    NotProven,
    check_proof,
    client_context,
    explain,
    new_challenge,
    secret_at,
)

CONNECT_S: Final = 3.0
ANSWER_S: Final = 20.0
"""Timeout of a whole proof, and of each part of an answer. An event stream has a part every five seconds."""
_IDLE_S: Final = 20.0  # the other end hangs up after 30 s
_BLOCK: Final = 65536


class PeerAway(LoaderwatchError):
    """Another server does not answer."""


class PeerClient:
    """The connections to other servers. Use it on the event loop only."""

    def __init__(self, token: Callable[[], str]) -> None:
        """Make a client. ``token()`` is the token that the other servers must know."""
        self._token = token
        self._idle: dict[str, list[_Connection]] = {}
        self._busy: set[_Connection] = set()

    async def ask(
        self, url: str, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> PeerAnswer:
        """Ask the server at ``url``; on return, its answer has started.

        Raises:
            PeerAway: it does not answer, or does not prove that it is one of ours.
        """
        connection = await self._connection(url)
        with self._dropped_on_error(connection):
            return await connection.ask(method, target, headers, body, self._done)

    def keep_only(self, urls: Collection[str]) -> None:
        """Hang up on servers at other addresses: they are gone, and open requests to them stay unanswered."""
        for connection in [*self._busy, *(c for idle in self._idle.values() for c in idle)]:
            if connection.url not in urls:
                self._drop(connection)
        self._idle = {url: idle for url, idle in self._idle.items() if url in urls}

    async def _connection(self, url: str) -> _Connection:
        idle = self._idle.get(url, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable():
                return connection
            connection.abort()
        try:
            connection = await _connected(url)
        except (OSError, ValueError, asyncio.TimeoutError) as error:
            raise _away(url, error) from None
        with self._dropped_on_error(connection):
            try:
                await asyncio.wait_for(connection.have_proven(secret_at(self._token(), url)), ANSWER_S)
            except NotProven as error:
                raise PeerAway(
                    f"the server at {url} has not proven that it is one of ours ({error}): give both the same"
                    " token.json, or the same LOADERWATCH_TOKEN"
                ) from None
        return connection

    @contextmanager
    def _dropped_on_error(self, connection: _Connection) -> Iterator[None]:
        self._busy.add(connection)
        try:
            yield
        except (OSError, h11.ProtocolError, asyncio.TimeoutError) as error:
            self._drop(connection)
            raise _away(connection.url, error) from None
        except BaseException:
            self._drop(connection)
            raise

    def _done(self, connection: _Connection, whole: bool) -> None:
        self._busy.discard(connection)
        if whole and connection.renew():
            self._idle.setdefault(connection.url, []).append(connection)
        else:
            connection.abort()

    def _drop(self, connection: _Connection) -> None:
        self._busy.discard(connection)
        connection.abort()


class PeerAnswer:
    """An answer that has started. Read it to its end, or close it."""

    def __init__(
        self,
        connection: _Connection,
        status: int,
        headers: list[tuple[str, str]],
        done: Callable[[_Connection, bool], None],
    ) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        self._done = done
        self._over = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            PeerAway: the server disappeared before the end of the body.
        """
        try:
            while (data := await self._connection.data()) is not None:
                yield data
        except (OSError, h11.ProtocolError, asyncio.TimeoutError) as error:
            self.close()
            raise _away(self._connection.url, error) from None
        self.close(whole=True)

    async def read(self) -> bytes:
        """Return the whole body.

        Raises:
            PeerAway
        """
        return b"".join([chunk async for chunk in self.chunks()])

    def close(self, *, whole: bool = False) -> None:
        """Return the connection to the pool if the ``whole`` answer was read, else hang up."""
        if not self._over:
            self._over = True
            self._done(self._connection, whole)


class _Connection:
    def __init__(self, url: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        parts = urlsplit(url)
        self.url = url
        self._host = parts.netloc
        self._folder = parts.path.rstrip("/")
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)
        self._used_s = time.monotonic()

    async def have_proven(self, secret: str) -> None:
        challenge = new_challenge()
        whole: list[bool] = []
        answer = await self.ask(
            "GET", f"{IDENTITY_PATH}?challenge={challenge}", {}, b"", lambda _, end: whole.append(end)
        )
        body = b""
        while (data := await self.data()) is not None and len(body) < MAX_PROOF_BYTES:
            body += data
        if answer.status != 200:
            raise NotProven(f"it answers {answer.status}")
        check_proof(secret, challenge, body)
        if not self.renew():
            raise ConnectionError("it hangs up")

    async def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        done: Callable[[_Connection, bool], None],
    ) -> PeerAnswer:
        sent = [("host", self._host), *headers.items(), ("content-length", str(len(body)))]
        parts: list[h11.Event] = [
            h11.Request(method=method, target=self._folder + target, headers=sent),
            *([h11.Data(data=body)] if body else []),
            h11.EndOfMessage(),
        ]
        self._writer.write(b"".join(self._http.send(part) or b"" for part in parts))
        await asyncio.wait_for(self._writer.drain(), ANSWER_S)
        while not isinstance(event := await self._event(), h11.Response):
            if isinstance(event, h11.ConnectionClosed):
                raise ConnectionError("it hangs up")
        answer_headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers]
        return PeerAnswer(self, event.status_code, answer_headers, done)

    async def data(self) -> bytes | None:
        """Return the next part of the body; None at its end."""
        event = await self._event()
        if isinstance(event, h11.Data):
            return bytes(event.data)
        if isinstance(event, h11.ConnectionClosed):
            raise ConnectionError("it hangs up")
        return None

    async def _event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if not isinstance(event, type) or event is h11.PAUSED:
                return event
            self._http.receive_data(await asyncio.wait_for(self._reader.read(_BLOCK), ANSWER_S))

    def renew(self) -> bool:
        """Prepare for the next request; return whether one is possible."""
        self._used_s = time.monotonic()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def is_usable(self) -> bool:
        there = not self._reader.at_eof() and not self._writer.is_closing()
        return there and time.monotonic() - self._used_s < _IDLE_S

    def abort(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._writer.transport.abort()


async def _connected(url: str) -> _Connection:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    opening = asyncio.open_connection(
        parts.hostname, parts.port or (443 if secure else 80), ssl=client_context() if secure else None
    )
    return _Connection(url, *await asyncio.wait_for(opening, CONNECT_S))


def _away(url: str, error: Exception) -> PeerAway:
    why = explain(error) or type(error).__name__
    return PeerAway(f"the server at {url}, which has this run, does not answer ({why}); try again")
