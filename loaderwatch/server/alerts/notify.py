"""Tells people outside the page: which address gets which message, and when.

The addresses of the server are told of every run, those that a run gave of that run alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

from loaderwatch.core.answers import Text
from loaderwatch.server.alerts.alert_book import Alert
from loaderwatch.server.alerts.channel import FIRST_BACKOFF_S, Channel, Kind, Message, Target
from loaderwatch.server.alerts.recipients import Recipient, Recipients, Terms
from loaderwatch.server.alerts.run_addresses import RunAddresses
from loaderwatch.texts import own_language, say

_log = logging.getLogger(__name__)

MOST_ADDRESSES: Final = 100
"""How many addresses one server tells at most: each has a thread, and a script may make up addresses in a loop."""
MOST_HELD: Final = 200
"""How many messages wait for the end of an address's quiet hours; of more, the oldest are only counted."""
_GRAVEST: Final[tuple[Kind, ...]] = ("critical", "warning", "resolved", "info")


@dataclass(frozen=True, slots=True)
class NotifyCounts:
    """How many messages were sent, failed and so on, over all addresses."""

    sent: int = 0
    failed: int = 0
    dropped: int = 0
    waiting: int = 0


@dataclass(slots=True)
class _Addressee:
    """An address: its channel, its terms, what its quiet hours hold back, and when it was last told of open alerts."""

    channel: Channel
    terms: Terms
    held: list[tuple[datetime, Message]] = field(default_factory=list)
    held_before: int = 0  # beyond MOST_HELD
    told_s: dict[str, float] = field(default_factory=dict)  # by alert, monotonic
    refusal_said: set[str] = field(default_factory=set)  # to which runs

    @property
    def language(self) -> str:
        """Return the language of its messages, "en" or "zh": that of its terms, else the server's."""
        return self.terms.language or own_language()


class Notifier:
    """Posts each message once to every address that it is for. Use it from one thread; it never blocks.

    Raises:
        ConfigError: an address of the server is not one Apprise knows.
    """

    def __init__(
        self,
        recipients: Sequence[Recipient] = (),
        *,
        general: Recipients | None = None,
        run_addresses: Path | None = None,
        source: str = "--notify",
        first_backoff_s: float = FIRST_BACKOFF_S,
        now: Callable[[], datetime] = datetime.now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a notifier.

        ``recipients`` are told of every run. ``run_addresses`` is the folder in which runs leave theirs, and ``general`` has
        the terms of those. ``now`` is the local time, which quiet hours go by. ``source`` is said to hold a wrong address.
        """
        self._general = general or Recipients()
        self._runs = None if run_addresses is None else RunAddresses(run_addresses)
        self._first_backoff_s = first_backoff_s
        self._now = now
        self._monotonic = monotonic
        self._started = False
        self._addressees: dict[str, _Addressee] = {}
        self._of_server: list[str] = []
        self._of_run: dict[str, list[str]] = {}
        self._too_many_said = False
        for recipient in recipients:
            if recipient.address not in self._addressees:
                self._add(recipient, Target(recipient.address, source), source)
            self._of_server.append(recipient.address)

    def start(self) -> None:
        """Start the sending threads."""
        self._started = True
        for one in self._addressees.values():
            one.channel.start()

    def close(self, timeout_s: float = 1.0) -> None:
        """Give queued messages a moment to be sent, with those that quiet hours hold back, then stop."""
        for one in self._addressees.values():
            self._release(one)
            one.channel.stop()
        give_up_at = time.monotonic() + timeout_s
        for one in self._addressees.values():
            one.channel.join(max(0.0, give_up_at - time.monotonic()))

    def replace(self, recipients: Sequence[Recipient], general: Recipients, source: str) -> None:
        """Take other addresses and terms for the server, because its configuration has changed."""
        self._general = general
        self._of_server = []
        for recipient in recipients:
            if self._find(recipient, source) is not None:
                self._of_server.append(recipient.address)
        given = {address for addresses in self._of_run.values() for address in addresses}
        for recipient in general.of(tuple(given)):
            self._addressees[recipient.address].terms = recipient.terms

    @property
    def holds(self) -> bool:
        """Whether messages wait for the end of quiet hours, or to be sent."""
        return any(one.held or one.channel.waiting for one in self._addressees.values())

    def counts(self) -> NotifyCounts:
        """Return the counts of messages so far."""
        channels = [one.channel for one in self._addressees.values()]
        return NotifyCounts(
            sent=sum(c.sent for c in channels),
            failed=sum(c.failed for c in channels),
            dropped=sum(c.dropped for c in channels),
            waiting=sum(c.waiting for c in channels)
            + sum(len(one.held) for one in self._addressees.values()),
        )

    # -- runs

    def learn(self, run_id: str) -> bool:
        """Look which addresses a run gave; return whether it gave any."""
        given = () if self._runs is None else self._runs.of(run_id)
        if given or run_id in self._of_run:
            recipients = [one for one in self._general.of(given) if one.address not in self._of_server]
            found = [one.address for one in recipients if self._find(one, "notify") is not None]
            self._of_run[run_id] = found
        return bool(given)

    def troubles(self, run_id: str) -> list[Text]:
        """Return what is wrong with the addresses that a run gave: a line for its stderr, once for each."""
        lines = []
        for address in self._of_run.get(run_id, ()):
            one = self._addressees[address]
            if one.channel.refused is not None and run_id not in one.refusal_said:
                one.refusal_said.add(run_id)
                lines.append(Text("address-refused", {"why": one.channel.refused}))
        return lines

    def forget(self, run_id: str) -> None:
        """Forget a run that is over."""
        self._of_run.pop(run_id, None)
        if self._runs is not None:
            self._runs.forget(run_id)

    # -- messages

    def tell(
        self, run_id: str, message: Callable[[str], Message], alert: Alert, *, over: bool = False
    ) -> None:
        """Tell the addresses of a run, each in its language, that an alert began, or that it is ``over``."""
        severity = alert.told or alert.finding.severity
        for one in self._told_of(run_id):
            if not over:
                one.told_s[alert.id] = self._monotonic()
            elif one.told_s:
                one.told_s.pop(alert.id, None)
            if severity == "critical" or one.terms.severity == "warning":
                self._post(one, message, severity)

    def remind(
        self, run_id: str, firing: Iterable[Alert], message: Callable[[Alert], Callable[[str], Message]]
    ) -> None:
        """Tell those again who want it that alerts go on which nobody has acknowledged or silenced."""
        reminded = [one for one in self._told_of(run_id) if one.terms.remind_every_s is not None]
        if not reminded:
            return
        now_s = self._monotonic()
        for alert in firing:
            for one in reminded:
                severity = alert.told or alert.finding.severity
                if severity != "critical" and one.terms.severity == "critical":
                    continue
                # Of an alert from before this server's start the time counts from the first look.
                last_s = one.told_s.setdefault(alert.id, now_s)
                if now_s - last_s >= (one.terms.remind_every_s or 0.0):
                    one.told_s[alert.id] = now_s
                    self._post(one, message(alert), severity)

    def summarize(self, run_id: str, message: Callable[[str], Message]) -> None:
        """Tell those who want it how a run went."""
        for one in self._told_of(run_id):
            if one.terms.summary:
                self._post(one, message, "warning")

    def tick(self) -> None:
        """Send what quiet hours held back, where they are over."""
        for one in self._addressees.values():
            if one.held and not self._is_quiet(one):
                self._release(one)

    # -- inside

    def _told_of(self, run_id: str) -> list[_Addressee]:
        addresses = dict.fromkeys([*self._of_server, *self._of_run.get(run_id, ())])
        return [self._addressees[address] for address in addresses]

    def _find(self, recipient: Recipient, source: str) -> _Addressee | None:
        """Return the addressee of an address on its terms; None if there are too many."""
        known = self._addressees.get(recipient.address)
        if known is not None:
            known.terms = recipient.terms
            return known
        if len(self._addressees) >= MOST_ADDRESSES:
            if not self._too_many_said:
                self._too_many_said = True
                _log.error("this server tells %d addresses, and no more are added", MOST_ADDRESSES)
            return None
        return self._add(recipient, None, source)

    def _add(self, recipient: Recipient, target: Target | None, source: str) -> _Addressee:
        channel = Channel(recipient.address, target, source=source, first_backoff_s=self._first_backoff_s)
        added = self._addressees[recipient.address] = _Addressee(channel, recipient.terms)
        if self._started:
            channel.start()
        return added

    def _is_quiet(self, one: _Addressee) -> bool:
        quiet = one.terms.quiet_hours
        return quiet is not None and quiet.hold(self._now().time())

    def _post(self, one: _Addressee, made: Callable[[str], Message], severity: str) -> None:
        message = made(one.language)
        passes = severity == "critical" and not one.terms.quiet_critical
        if passes or not self._is_quiet(one):
            one.channel.post(message)
            return
        one.held.append((self._now(), message))
        if len(one.held) > MOST_HELD:
            del one.held[0]
            one.held_before += 1

    def _release(self, one: _Addressee) -> None:
        """Send what was held back as one message."""
        if not one.held:
            return
        held, one.held = one.held, []
        before, one.held_before = one.held_before, 0
        kinds = {message.kind for _, message in held}
        lines = [say(Text("earlier-on-page", {"earlier": before}), one.language)] if before else []
        lines += [f"{when:%H:%M} {message.title}\n{_link(message)}".rstrip() for when, message in held]
        hours = None if one.terms.quiet_hours is None else str(one.terms.quiet_hours)
        title = Text("quiet-is-over", {"hours": hours, "messages": before + len(held)}, "title")
        kind = next(kind for kind in _GRAVEST if kind in kinds)
        one.channel.post(Message(kind, say(title, one.language), "\n\n".join(lines)))


def _link(message: Message) -> str:
    """Return the page's address, which is the last paragraph of our messages."""
    last = message.body.rpartition("\n\n")[2]
    return last if "://" in last else ""
