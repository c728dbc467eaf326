"""From a payload to disk: decode, gather, commit in groups, acknowledge."""

from __future__ import annotations

from collections.abc import Callable

from loaderwatch.core.errors import LoaderwatchError
from loaderwatch.core.wire import Envelope
from loaderwatch.server.store.protocol import Store


class Busy(LoaderwatchError):
    """More envelopes wait for the disk than may; try again in ``retry_after_s``."""

    def __init__(self, waiting_bytes: int, retry_after_s: float) -> None:
        super().__init__(f"{waiting_bytes} bytes wait to be stored; try again in {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


class Ingest:
    """Stores envelopes through a single writer thread.

    Make, ``start`` and ``submit`` on the event loop's thread; ``await stop()`` commits what is waiting.
    """

    def __init__(
        self, store: Store, *, commit_interval_s: float = 0.1, max_waiting_bytes: int = 64 * 2**20
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Start the writer thread."""
        raise NotImplementedError

    def on_stored(self, callback: Callable[[Envelope], None]) -> None:
        """Call ``callback(envelope)`` on the event loop, once for each envelope that is newly on disk, before its sender is told."""
        raise NotImplementedError

    async def submit(self, payload: bytes) -> tuple[Envelope, int]:
        """Store one payload; returns the envelope and the highest sequence stored of its stream, once on disk.

        Raises:
            WireError: the payload is malformed (400).
            Busy: too much is waiting (429).
            StoreError: the disk or file refuses (503).
        """
        raise NotImplementedError

    async def stop(self) -> None:
        """Commit what is waiting and end the writer thread."""
        raise NotImplementedError
