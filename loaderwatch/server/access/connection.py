"""HTTP connections with deadlines for everything that the client must do.

uvicorn itself waits forever: for the first line of a request, for the rest of a body, for a client that does
not read. Each such wait holds a descriptor and memory, and an idle connection is enough to cause one.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from loaderwatch.core.system import raise_descriptor_limit
from loaderwatch.server.access.rate_limits import Allowance

BURST: Final = 10
PER_S: Final = 1 / 60
LIMITED: Final = (
    "uvicorn.error",
    "loaderwatch.server.access.connection",
    "loaderwatch.server.access.request_gate",
    "loaderwatch.server.ingest",
)
"""Loggers of malformed requests, slow clients, faults that requests reveal, and envelopes to be resent."""


class LogLimit(logging.Filter):
    """Passes ``BURST`` lines of each kind, then one a minute, which says how many were left out before it.

    A kind is a message without arguments plus its exception's type, so a caller cannot create new kinds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._allowance = Allowance(BURST, PER_S, clock)
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line is written."""
        fault = record.exc_info[0] if record.exc_info else None
        kind = f"{record.name} {record.msg} {fault.__name__ if fault else ''}"
        if self._allowance.wait_s(kind) > 0:
            self._left_out[kind] += 1
            return False
        self._allowance.take(kind)
        left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg = f"{record.msg} (and {left_out} more such lines since the last one)"
        return True


def limit_log_lines() -> None:
    """Put a limit before the loggers of connections."""
    for name in LIMITED:
        logging.getLogger(name).addFilter(LogLimit())


_log = logging.getLogger(__name__)

HEADERS_S: Final = 20.0  # to the end of the headers: from the connection, or the end of the pause before
BODY_S: Final = 120.0  # for a whole body: 8 MiB at 70 kB/s
READING_S: Final = 30.0  # in which a client must read LEAST_READ
LEAST_READ: Final = 48 * 1024
MAX_HEADER_BYTES: Final = 32 * 1024
MOST_CONNECTIONS: Final = 4096
SPARE_DESCRIPTORS: Final = 512  # for the store's files and our own
_REFUSED_AT_ONCE: Final = 64
"""Connections that are refused in one turn of the loop, which takes some milliseconds."""


class Connection(H11Protocol):
    """A uvicorn connection that hangs up on a slow client."""

    headers_s = HEADERS_S
    body_s = BODY_S
    reading_s = READING_S
    most = MOST_CONNECTIONS
    _deadline: asyncio.TimerHandle | None = None
    _reader_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse the connection if there are too many; else allow ``headers_s`` for a request's headers."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.abort()
            return
        self._expect(self.headers_s)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop the deadlines of a closed connection."""
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Set the body's deadline once the headers are complete; single bytes do not extend a deadline."""
        previous_cycle = self.cycle
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            return
        if not self.cycle.more_body or self.conn.their_state is not h11.SEND_BODY:
            self._expect(None)
        elif self.cycle is not previous_cycle:
            self._expect(self.body_s)

    def on_response_complete(self) -> None:
        """Set the deadline for the next request; an unfinished, unread body keeps its own."""
        super().on_response_complete()
        if self.conn.their_state is not h11.SEND_BODY and not self.transport.is_closing():
            cycle = self.cycle
            self._expect(self.timeout_keep_alive + self.headers_s)
            if cycle is not self.cycle:  # the next request was waiting and has started
                self._expect(None)

    def pause_writing(self) -> None:
        """Start to watch a client that reads slower than we write."""
        super().pause_writing()
        self._watch_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Stop watching a client that has read nearly everything."""
        if self._reader_look is not None:
            self._reader_look.cancel()
            self._reader_look = None
        super().resume_writing()

    def _watch_reader(self, unread: int) -> None:
        self._reader_look = self.loop.call_later(self.reading_s, self._look_at_reader, unread)

    def _look_at_reader(self, unread: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now > unread - LEAST_READ:
            self._hang_up()
        else:
            self._watch_reader(now)

    def _expect(self, within_s: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if within_s is None else self.loop.call_later(within_s, self._late)

    def _late(self) -> None:
        if self.transport.get_write_buffer_size():  # the client is still reading our last answer
            self._expect(self.headers_s)
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        if not self.transport.is_closing():
            _log.info("%s is too slow: hung up", self.client[0] if self.client else "a client")
        self.transport.abort()


class Listener(socket.socket):
    """A listening socket that hangs up on connections beyond ``most`` before any object is made for them.

    A TLS connection becomes a ``Connection`` only after its handshake, but holds a descriptor before. When
    all descriptors are taken, asyncio writes a thousand tracebacks and cannot even hang up.
    """

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        super().__init__(family, kind, protocol)
        self.most = _most_connections()
        self.open_count = 0
        # closed to accept one connection and hang up on it
        self._spare: int | None = os.open(os.devnull, os.O_RDONLY)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; hang up on connections while there are too many.

        Raises:
            BlockingIOError: no connection is waiting, or several were refused.
        """
        for _ in range(_REFUSED_AT_ONCE):
            try:
                accepted, address = super().accept()
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._refuse():
                    raise
                continue
            if self.open_count < self.most:
                return _Accepted(self, accepted), address
            accepted.close()
            _log.info("%d connections are open: hung up on one more", self.open_count)
        raise BlockingIOError

    def _refuse(self) -> bool:
        """Hang up on a connection with the spare descriptor; return whether there was one."""
        if self._spare is None:
            return False
        os.close(self._spare)
        self._spare = None
        try:
            super().accept()[0].close()
            self._spare = os.open(os.devnull, os.O_RDONLY)
        except OSError:  # another thread has taken the descriptor
            return False
        _log.warning(
            "no descriptor is free: hung up on a connection; raise the limit of open files (ulimit -n)"
        )
        return True

    def close(self) -> None:
        """Close the socket and the spare descriptor."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()


class _Accepted(socket.socket):
    """A connection that its listener counts until it is closed."""

    def __init__(self, listener: Listener, accepted: socket.socket) -> None:
        super().__init__(accepted.family, accepted.type, accepted.proto, accepted.detach())
        self._listener: Listener | None = listener
        listener.open_count += 1

    def close(self) -> None:
        """Close the connection."""
        if self._listener is not None:
            self._listener.open_count -= 1
            self._listener = None
        super().close()


class Server(uvicorn.Server):
    """uvicorn's server, but it leaves no connection open when it ends."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down and hang up on the remaining clients.

        uvicorn closes the connections that it knows. A connection accepted at the same moment is set up two
        turns of the loop later and would stay open until the process ends.
        """
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # the aborted connections are closed in this turn


def uvicorn_options() -> dict[str, Any]:
    """Return uvicorn's options for these connections."""
    return {
        "http": type("Connection", (Connection,), {"most": _most_connections()}),
        "loop": "asyncio",  # another loop would not use the ``Listener``
        "ws": "none",
        "h11_max_incomplete_event_size": MAX_HEADER_BYTES,
    }


def _most_connections() -> int:
    """Return how many connections may be open, after raising the descriptor limit to hold them."""
    room = raise_descriptor_limit(MOST_CONNECTIONS + SPARE_DESCRIPTORS) - SPARE_DESCRIPTORS
    return max(64, min(MOST_CONNECTIONS, room))
