"""Notifies people outside the page: which address gets which message, and when.

The server's addresses get messages of every run, a run's own addresses only of that run.
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
from loaderwatch.server.alerts.recipients import Recipient, Recipients, RunAddresses, Terms
from loaderwatch.texts import own_language, say

_log = logging.getLogger(__name__)

MOST_ADDRESSES: Final = 100
"""Addresses of one server at most: each has a thread, and a script may create addresses in a loop."""
MOST_HELD: Final = 200
"""Messages that wait for the end of an address's quiet hours; beyond it, the oldest are only counted."""
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
    """An address: its channel and terms, messages held by quiet hours, and its last message per alert."""

    channel: Channel
    terms: Terms
    held: list[tuple[datetime, Message]] = field(default_factory=list)
    held_before: int = 0  # messages dropped beyond MOST_HELD
    told_s: dict[str, float] = field(default_factory=dict)  # by alert: monotonic time of the last message
    refusal_said: set[str] = field(default_factory=set)  # runs that know of the refusal

    @property
    def language(self) -> str:
        """The language of its messages, "en" or "zh": by its terms, else the server's."""
        return self.terms.language or own_language()


class Notifier:
    """Posts each message once to each of its addresses. Use it from one thread; it never blocks.

    Raises:
        ConfigError: Apprise does not know an address of the server.
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

        ``recipients`` get messages of every run. ``run_addresses`` is the folder of the runs' own addresses,
        with terms from ``general``. ``now`` is the time for quiet hours. ``source`` is named in errors.
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
        for addressee in self._addressees.values():
            addressee.channel.start()

    def close(self, timeout_s: float = 1.0) -> None:
        """Give queued messages, also those held by quiet hours, a moment to be sent, then stop."""
        for addressee in self._addressees.values():
            self._release(addressee)
            addressee.channel.stop()
        give_up_at = time.monotonic() + timeout_s
        for addressee in self._addressees.values():
            addressee.channel.join(max(0.0, give_up_at - time.monotonic()))

    def replace(self, recipients: Sequence[Recipient], general: Recipients, source: str) -> None:
        """Use other addresses and terms for the server, because its configuration has changed."""
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
        """Whether messages wait for the end of quiet hours or to be sent."""
        return any(addressee.held or addressee.channel.waiting for addressee in self._addressees.values())

    def counts(self) -> NotifyCounts:
        """Return the counts of messages so far."""
        channels = [addressee.channel for addressee in self._addressees.values()]
        return NotifyCounts(
            sent=sum(c.sent for c in channels),
            failed=sum(c.failed for c in channels),
            dropped=sum(c.dropped for c in channels),
            waiting=sum(c.waiting for c in channels)
            + sum(len(addressee.held) for addressee in self._addressees.values()),
        )

    # -- runs

    def learn(self, run_id: str) -> bool:
        """Look up the addresses that a run gave; return whether it gave any."""
        given = () if self._runs is None else self._runs.of(run_id)
        if given or run_id in self._of_run:
            recipients = [r for r in self._general.of(given) if r.address not in self._of_server]
            known = [r.address for r in recipients if self._find(r, "notify") is not None]
            self._of_run[run_id] = known
        return bool(given)

    def troubles(self, run_id: str) -> list[Text]:
        """Return the faults of a run's own addresses as lines for its stderr, each once."""
        lines = []
        for address in self._of_run.get(run_id, ()):
            addressee = self._addressees[address]
            if addressee.channel.refused is not None and run_id not in addressee.refusal_said:
                addressee.refusal_said.add(run_id)
                lines.append(Text("address-refused", {"why": addressee.channel.refused}))
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
        """Notify a run's addresses, each in its language, that an alert began or is ``over``."""
        severity = alert.told or alert.finding.severity
        for addressee in self._told_of(run_id):
            if not over:
                addressee.told_s[alert.id] = self._monotonic()
            elif addressee.told_s:
                addressee.told_s.pop(alert.id, None)
            if severity == "critical" or addressee.terms.severity == "warning":
                self._post(addressee, message, severity)

    def remind(
        self, run_id: str, firing: Iterable[Alert], message: Callable[[Alert], Callable[[str], Message]]
    ) -> None:
        """Remind the addresses that want it of unacknowledged alerts that go on."""
        reminded = [
            addressee for addressee in self._told_of(run_id) if addressee.terms.remind_every_s is not None
        ]
        if not reminded:
            return
        now_s = self._monotonic()
        for alert in firing:
            for addressee in reminded:
                severity = alert.told or alert.finding.severity
                if severity != "critical" and addressee.terms.severity == "critical":
                    continue
                # For an alert from before this server's start, the time counts from the first look.
                last_s = addressee.told_s.setdefault(alert.id, now_s)
                if now_s - last_s >= (addressee.terms.remind_every_s or 0.0):
                    addressee.told_s[alert.id] = now_s
                    self._post(addressee, message(alert), severity)

    def summarize(self, run_id: str, message: Callable[[str], Message]) -> None:
        """Send the summary of a run to the addresses that want it."""
        for addressee in self._told_of(run_id):
            if addressee.terms.summary:
                self._post(addressee, message, "warning")

    def tick(self) -> None:
        """Send the messages that quiet hours held back once those are over."""
        for addressee in self._addressees.values():
            if addressee.held and not self._is_quiet(addressee):
                self._release(addressee)

    # -- inside

    def _told_of(self, run_id: str) -> list[_Addressee]:
        addresses = dict.fromkeys([*self._of_server, *self._of_run.get(run_id, ())])
        return [self._addressees[address] for address in addresses]

    def _find(self, recipient: Recipient, source: str) -> _Addressee | None:
        """Return the addressee of an address with these terms; None if there are too many."""
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
        """Send all held messages as one."""
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
    """Return the page's address: the last paragraph of our messages."""
    last = message.body.rpartition("\n\n")[2]
    return last if "://" in last else ""
