"""A channel to one Apprise address (chat, e-mail, webhook), with its own thread and queue.

So a dead address neither delays the others nor makes them receive a message twice. An address holds secrets:
logs and texts show only its scheme, and Apprise's own log lines about it are kept out of our logs.
"""

from __future__ import annotations

import logging
import queue
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

import apprise

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.message import Param, Text
from loaderwatch.core.printable import one_line, printable
from loaderwatch.texts import say

_log = logging.getLogger(__name__)

_QUEUE_LENGTH: Final = 200
_ATTEMPTS: Final = 4
FIRST_BACKOFF_S: Final = 2.0
_REASON_LENGTH: Final = 200
_PART: Final = re.compile(r"[^/:@?&=,;+#\s]{3,}")  # of an address: a host, a user or a key

Kind = Literal["info", "warning", "critical", "resolved"]
_TYPES: Final = {
    "info": apprise.NotifyType.INFO,
    "warning": apprise.NotifyType.WARNING,
    "critical": apprise.NotifyType.FAILURE,
    "resolved": apprise.NotifyType.SUCCESS,
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message of plain text, in one language."""

    kind: Kind
    title: str
    body: str


class Target:
    """An address opened by Apprise. The first one takes a second, in which Apprise loads its plugins.

    Raises:
        ConfigError: Apprise does not know the address; the error names ``source``.
    """

    def __init__(self, address: str, source: str = "--notify") -> None:
        self._address = address
        self._apprise = apprise.Apprise()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Apprise's plugins
            with _overheard():  # a wrong address is reported once, below
                known = self._apprise.add(address)
        if not known:
            raise ConfigError(
                f"{source} {label(address)!r} is not an address Apprise knows; "
                "see https://github.com/caronc/apprise/wiki for their forms, "
                "e.g. json://host/path for a webhook"
            )

    def send(self, message: Message) -> Text | None:
        """Send a message; return None if it was delivered, else the reason, without parts of the address."""
        with _overheard() as said:
            try:
                delivered = self._apprise.notify(
                    body=printable(message.body),
                    title=one_line(message.title),  # some plugins would turn a second line into a header
                    notify_type=_TYPES[message.kind],
                    body_format=apprise.NotifyFormat.TEXT,
                )
            except Exception as fault:  # noqa: BLE001 - any of 100+ third-party plugins may raise
                raised: dict[str, Param] = {"error": type(fault).__name__, "said": self._reason(str(fault))}
                return Text("apprise-plugin-raised", raised)
        if delivered:
            return None
        return Text("as-written", {"text": self._reason(said[-1])}) if said else Text("apprise-says-nothing")

    def _reason(self, text: str) -> str:
        for form in (self._address, unquote(self._address)):
            for part in sorted(set(_PART.findall(form.partition("://")[2])), key=len, reverse=True):
                text = text.replace(part, "…")
        return one_line(text)[:_REASON_LENGTH].rstrip(".")


class Channel:
    """An address with a queue and a sending thread. It opens the address unless it gets a ``target``.

    ``refused``: why the address cannot be used at all, once known.
    """

    def __init__(
        self,
        address: str,
        target: Target | None = None,
        *,
        source: str = "--notify",
        first_backoff_s: float = FIRST_BACKOFF_S,
    ) -> None:
        self.label = label(address)
        self.refused: str | None = None
        self.sent = self.failed = self.dropped = 0
        self._address = address
        self._source = source
        self._target = target
        self._first_backoff_s = first_backoff_s
        self._queue: queue.Queue[Message | None] = queue.Queue(_QUEUE_LENGTH)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="loaderwatch-notify", daemon=True)

    @property
    def waiting(self) -> int:
        """How many messages wait to be sent."""
        return self._queue.qsize()

    def start(self) -> None:
        """Start the sending thread."""
        self._thread.start()

    def post(self, message: Message) -> None:
        """Queue a message; never blocks."""
        try:
            self._queue.put_nowait(message)
        except queue.Full:
            self.dropped += 1
            _log.error("notify %s: %d messages wait; dropped %r", self.label, _QUEUE_LENGTH, message.title)

    def stop(self) -> None:
        """Ask the thread to end after one try to send each waiting message."""
        self._stopping.set()
        # if full, the thread sees the event at its next failure or ends with the process
        with suppress(queue.Full):
            self._queue.put_nowait(None)

    def join(self, timeout_s: float) -> None:
        """Wait at most this long for the thread's end."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _work(self) -> None:
        if self._target is None:
            try:
                self._target = Target(self._address, self._source)
            except ConfigError as error:
                self.refused = str(error)
                _log.error("%s", error)
        while (message := self._queue.get()) is not None:
            if self._target is None:
                self.failed += 1
            else:
                self._deliver(self._target, message)

    def _deliver(self, target: Target, message: Message) -> None:
        backoff_s = self._first_backoff_s
        for attempt in range(1, _ATTEMPTS + 1):
            why = target.send(message)
            if why is None:
                self.sent += 1
                return
            _log.warning("notify %s: attempt %d of %d failed: %s", self.label, attempt, _ATTEMPTS, say(why))
            if attempt == _ATTEMPTS or self._stopping.wait(backoff_s):
                break
            backoff_s *= 2
        self.failed += 1
        _log.error("notify %s: gave up on %r", self.label, message.title)


def label(address: str) -> str:
    """Return only the address's scheme, since most addresses hold keys and passwords."""
    scheme, separator, _ = address.partition("://")
    return f"{scheme[:40]}://…" if separator else "…"


_said: Final[ContextVar[list[str] | None]] = ContextVar("said", default=None)
"""Apprise's warnings while we send. The context also reaches the threads that Apprise starts."""


class _Overhearing(logging.Filter):
    """Keeps Apprise's lines during a send out of the log, where they could show parts of an address."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = _said.get()
        if said is not None and record.levelno >= logging.WARNING:
            said.append(record.getMessage())
        return said is None


logging.getLogger("apprise").addFilter(_Overhearing())


@contextmanager
def _overheard() -> Iterator[list[str]]:
    """Yield the list of warnings that Apprise logs meanwhile."""
    said: list[str] = []
    previous = _said.set(said)
    try:
        yield said
    finally:
        _said.reset(previous)
