"""Two files of a run: its notification addresses for the server, and the server's last line to print."""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from loaderwatch.core.config import Settings
from loaderwatch.core.files import write_atomically
from loaderwatch.core.message import Text
from loaderwatch.core.wire import CLOSED_NAME, CLOSING_NAME, QUIET_S, Closing, Receipt
from loaderwatch.texts import say

log = logging.getLogger(__name__)

KNOWN_WITHIN_S: Final = 10.0
"""A server checks a run's addresses every second. A network file system may delay them by a few seconds."""


class RunFiles:
    """Follows the address file, which only the server reads, and writes the training process's last line."""

    def __init__(self, settings: Settings, run_id: str, rings: Path) -> None:
        self._settings = settings
        self._addresses = settings.notify_dir / f"{run_id}.json"
        self._closing = rings / CLOSING_NAME
        self._closed = rings / CLOSED_NAME
        self._mark = self._look()  # the version of the address file
        self._missed_since: float | None = None
        self._missed_said = False
        self.troubles: deque[Text] = deque(maxlen=10)

    def take(self, receipt: Receipt) -> None:
        """Process a server's answer: whether it has the addresses, and what to print at the end."""
        self._mark = self._look()
        if self._mark is None or receipt.notifies:
            self._missed_since = None
        else:
            self._note_missed()
        if receipt.closing is not None:
            self._write(receipt.closing)

    def is_closed(self) -> bool:
        """Whether the run's last line was just printed; the job's stderr then gets no other line."""
        try:
            return time.time() - self._closed.stat().st_mtime < QUIET_S
        except OSError:
            return False

    def remove(self, *, addresses: bool) -> None:
        """Remove the last line, so that the rings' folder can go, and the ``addresses`` if unneeded.

        Addresses that a new process of the run wrote meanwhile stay.
        """
        for path in (self._closing, self._closed):
            with suppress(OSError):
                path.unlink(missing_ok=True)
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
        trouble = Text("addresses-not-told", {"data_dir": str(self._settings.data_dir)})
        log.warning("%s", say(trouble))
        self.troubles.append(trouble)

    def _write(self, closing: Closing) -> None:
        try:
            write_atomically(self._closing, msgspec.json.encode(closing))
        except OSError as error:
            log.info("%s cannot be written: %s", self._closing, error)

    def _look(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._addresses)  # noqa: PTH116 - twice a second
        except OSError:
            return None
        return stat.st_ino, stat.st_mtime_ns
