"""An HTTP server for fakes: a client that dies in the middle of a request is no news."""

from __future__ import annotations

import http.server


class QuietServer(http.server.ThreadingHTTPServer):
    """Threads end with the process; errors of a connection are not printed."""

    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a streamer that was killed in the middle of a request
