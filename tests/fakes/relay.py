"""Another address of a server on this machine, which can go away while the server itself stays."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Relay:
    """Passes bytes between who connects to its ``port`` and a port of this machine, until it is closed."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Refuse connections from now on, and cut those that are open."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or accept would go on with the last one
        self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                mine, _ = self._listener.accept()
            except OSError:
                return
            theirs = socket.create_connection(("127.0.0.1", self._to_port))
            self._open += [mine, theirs]
            for source, target in ((mine, theirs), (theirs, mine)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
