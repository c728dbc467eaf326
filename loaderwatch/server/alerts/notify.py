"""Sends messages through Apprise to people outside the page: chat, e-mail, webhooks.

Each address has its own thread and queue, so that a dead one neither delays the others nor makes them receive a message
twice.
"""

from __future__ import annotations

import logging
import queue
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal

import apprise

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.printable import one_line, printable

_log = logging.getLogger(__name__)

_QUEUE_LENGTH: Final = 200
_ATTEMPTS: Final = 4
_FIRST_BACKOFF_S: Final = 2.0

Kind = Literal["warning", "critical", "resolved"]
_TYPES: Final = {
    "warning": apprise.NotifyType.WARNING,
    "critical": apprise.NotifyType.FAILURE,
    "resolved": apprise.NotifyType.SUCCESS,
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message of plain text."""

    kind: Kind
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class NotifyCounts:
    """How many messages were sent, failed and so on, over all addresses."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0


class Notifier:
    """Sends each message once to every address.

    Raises:
        ConfigError: an address is not one Apprise knows.
    """

    def __init__(self, urls: Sequence[str], *, first_backoff_s: float = _FIRST_BACKOFF_S) -> None:
        self._channels = [_Channel(url, first_backoff_s) for url in urls]

    def start(self) -> None:
        """Start the sending threads."""
        for channel in self._channels:
            channel.start()

    def post(self, message: Message) -> None:
        """Queue a message; never blocks."""
        for channel in self._channels:
            channel.post(message)

    def counts(self) -> NotifyCounts:
        """Return the counts of messages so far."""
        return NotifyCounts(
            sent=sum(c.sent for c in self._channels),
            failed=sum(c.failed for c in self._channels),
            dropped=sum(c.dropped for c in self._channels),
            waiting=sum(c.waiting for c in self._channels),
        )

    def close(self, timeout_s: float = 1.0) -> None:
        """Give queued messages a moment to be sent, then stop."""
        for channel in self._channels:
            channel.stop()
        for channel in self._channels:
            channel.join(timeout_s)


class _Channel:
    """One address, its queue and its thread."""

    def __init__(self, url: str, first_backoff_s: float) -> None:
        self._label = _without_secrets(url)
        self._target = apprise.Apprise()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # warnings of Apprise's plugins, which are loaded here
            with _silent(logging.getLogger("apprise")):  # we report a wrong address once, below
                known = self._target.add(url)
        if not known:
            raise ConfigError(
                f"--notify {self._label!r} is not an address Apprise knows; "
                "see https://github.com/caronc/apprise/wiki for their forms, e.g. json://host/path for a webhook"
            )
        self._first_backoff_s = first_backoff_s
        self._queue: queue.Queue[Message | None] = queue.Queue(_QUEUE_LENGTH)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="loaderwatch-notify", daemon=True)
        self.sent = self.failed = self.dropped = 0

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    def start(self) -> None:
        self._thread.start()

    def post(self, message: Message) -> None:
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            self.dropped += 1
            _log.error("notify %s: %d messages wait; dropped %r", self._label, _QUEUE_LENGTH, message.title)

    def stop(self) -> None:
        self._stopping.set()
        with suppress(
            queue.Full
        ):  # then the thread sees the event at its next failure or ends with the process
            self._queue.put_nowait(None)

    def join(self, timeout_s: float) -> None:
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            message = self._queue.get()
            if message is None:
                return
            self._deliver(message)

    def _deliver(self, message: Message) -> None:
        backoff_s = self._first_backoff_s
        for attempt in range(1, _ATTEMPTS + 1):
            if self._send(message):
                self.sent += 1
                return
            _log.warning("notify %s: attempt %d of %d failed", self._label, attempt, _ATTEMPTS)
            if attempt == _ATTEMPTS or self._stopping.wait(backoff_s):
                break
            backoff_s *= 2
        self.failed += 1
        _log.error("notify %s: gave up on %r", self._label, message.title)

    def _send(self, message: Message) -> bool:
        try:
            return bool(
                self._target.notify(
                    body=printable(message.body),
                    title=one_line(message.title),  # some plugins would turn a second line into a header
                    notify_type=_TYPES[message.kind],
                    body_format=apprise.NotifyFormat.TEXT,
                )
            )
        except Exception:  # noqa: BLE001 - 100+ third-party plugins; one that raises must not end the thread
            _log.exception("notify %s: the Apprise plugin raised", self._label)
            return False


@contextmanager
def _silent(log: logging.Logger) -> Iterator[None]:
    was, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was


def _without_secrets(url: str) -> str:
    """Return the address's scheme alone, since the rest of most addresses holds keys and passwords."""
    scheme, separator, _ = url.partition("://")
    return f"{scheme}://…" if separator else url[:40]
