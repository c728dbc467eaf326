"""An HTTP server for fakes: a client that dies in the middle of a request is no news."""

from __future__ import annotations

import contextlib
import http.server
import socket
from typing import Any


class QuietServer(http.server.ThreadingHTTPServer):
    """Threads end with the process; connection errors are not printed. Closing it closes all connections."""

    daemon_threads = True

    def __init__(self, *args: Any, **more: Any) -> None:
        self._open: set[socket.socket] = set()
        super().__init__(*args, **more)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Remember the connection."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """It has ended by itself."""
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """As when the process of a server ends."""
        super().server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a streamer that was killed in the middle of a request
