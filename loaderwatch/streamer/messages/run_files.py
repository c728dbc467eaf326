"""The file in which a run leaves the addresses that it gave to be told, for the server."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from typing import Final

from loaderwatch.core.config import Settings
from loaderwatch.core.wire import Receipt
from loaderwatch.streamer.upload import Trouble

log = logging.getLogger(__name__)

KNOWN_WITHIN_S: Final = 10.0
"""A server looks for the addresses of a run every second; on a network file system they may come a few seconds later."""


class RunFiles:
    """Follows the file of addresses, which the server alone reads."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._settings = settings
        self._addresses = settings.notify_dir / f"{run_id}.json"
        self._mark = self._look()  # which version of the addresses there is
        self._missed_since: float | None = None
        self._missed_said = False
        self.troubles: deque[Trouble] = deque(maxlen=10)

    def take(self, receipt: Receipt) -> None:
        """Take in a server's answer: whether it has the addresses."""
        self._mark = self._look()
        if self._mark is None or receipt.notifies:
            self._missed_since = None
        else:
            self._note_missed()

    def remove(self, *, addresses: bool) -> None:
        """Remove the ``addresses`` if nobody needs them any more.

        Addresses that a new process of the run has left meanwhile stay.
        """
        try:
            if addresses and self._mark is not None and self._look() == self._mark:
                self._addresses.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed: %s", self._addresses, error)

    def _note_missed(self) -> None:
        now = time.monotonic()
        self._missed_since = now if self._missed_since is None else self._missed_since
        if self._missed_said or now - self._missed_since <= KNOWN_WITHIN_S:
            return
        self._missed_said = True
        text = (
            "nobody will be told at the addresses of this run (attach(notify=), LOADERWATCH_NOTIFY): its server is not that of"
            f" {self._settings.data_dir}, or is of an older version, and takes no addresses over the network. Start that server"
            " with --notify, or write the addresses into its config.toml"
        )
        log.warning("%s", text)
        self.troubles.append(Trouble(text))

    def _look(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._addresses)  # noqa: PTH116 - twice a second
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns
