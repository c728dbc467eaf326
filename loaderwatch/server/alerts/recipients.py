"""Who gets which messages, and when: the ``notify`` key of ``config.toml``, and addresses without terms."""

from __future__ import annotations

import logging
import os
import re
import stat
from dataclasses import dataclass, replace
from datetime import time
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from loaderwatch.core.environment_variables import ADDRESSES
from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import NotPrivate, read_own
from loaderwatch.core.wire import UNDECODABLE
from loaderwatch.texts import LANGUAGES

_log = logging.getLogger(__name__)

_MAX_BYTES: Final = 64 * 1024
_decode: Final = msgspec.json.Decoder(list[str]).decode
Mark = tuple[int, int]
"""The version of a file that was read: inode and modification time."""


class RunAddresses:
    """Reads the files of a folder; an unchanged file costs one stat."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[Mark, tuple[str, ...]]] = {}

    def of(self, run_id: str) -> tuple[str, ...]:
        """Return the addresses of a run. They stay known after the job ends and its file is removed."""
        path = self._folder / f"{run_id}.json"
        previous = self._read.get(run_id)
        known = () if previous is None else previous[1]
        try:
            status = os.lstat(path)
        except OSError:
            return known
        mark = (status.st_ino, status.st_mtime_ns)
        if previous is not None and previous[0] == mark:
            return known
        addresses = _addresses(path, status)
        self._read[run_id] = mark, addresses
        return addresses

    def forget(self, run_id: str) -> None:
        """Forget a run that is over."""
        self._read.pop(run_id, None)


def _addresses(path: Path, found: os.stat_result) -> tuple[str, ...]:
    try:
        if not stat.S_ISREG(found.st_mode) or found.st_size > _MAX_BYTES:
            raise NotPrivate
        given = _decode(read_own(path))
        return tuple(address for text in given for address in ADDRESSES.parse(text, path.name))
    except FileNotFoundError:
        return ()
    except NotPrivate:
        _log.warning("%s was not written by this user's training: its addresses are not used", path)
        return ()
    except (OSError, *UNDECODABLE, ConfigError):
        _log.warning("%s cannot be read as a list of addresses: they are not used", path)
        return ()


LEAST_REMINDER_S: Final = 60.0
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|m|h|d)")
_SECONDS: Final = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_QUIET: Final = re.compile(r"(\d{1,2}):(\d{2})\s*-\s*(\d{1,2}):(\d{2})")
TERMS: Final = ("severity", "remind_every", "quiet_hours", "quiet_critical", "summary", "language")
"""The keys besides ``to``, for all addresses or in one address's table."""


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A daily period in this machine's local time in which only critical messages are sent."""

    begin: time
    end: time  # the first moment after the period; before ``begin`` if the period spans midnight

    def hold(self, now: time) -> bool:
        """Whether this time is in the quiet hours."""
        if self.begin < self.end:
            return self.begin <= now < self.end
        return now >= self.begin or now < self.end

    def __str__(self) -> str:
        return f"{self.begin:%H:%M}–{self.end:%H:%M}"


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions on which an address gets messages."""

    severity: Literal["warning", "critical"] = "warning"  # the least severity
    remind_every_s: float | None = None  # while an alert goes on unacknowledged; None: never
    quiet_hours: QuietHours | None = None
    quiet_critical: bool = False  # quiet hours also hold back critical alerts
    summary: bool = False  # a message at the end of each run
    language: str | None = None  # "en" or "zh"; None: the server's


@dataclass(frozen=True, slots=True)
class Recipient:
    """An Apprise address, which holds secrets, and its terms."""

    address: str
    terms: Terms = Terms()


@dataclass(frozen=True, slots=True)
class Recipients:
    """The addresses of a configuration, and the terms for addresses from elsewhere."""

    named: tuple[Recipient, ...] = ()
    terms: Terms = Terms()

    def of(self, addresses: tuple[str, ...]) -> tuple[Recipient, ...]:
        """Give addresses their terms: the configuration's terms for that address, else the general ones."""
        terms = {recipient.address: recipient.terms for recipient in self.named}
        return tuple(Recipient(address, terms.get(address, self.terms)) for address in addresses)


def parse_notify(value: object, source: str) -> Recipients:
    """Return the content of the ``notify`` key: an address, a list, or a table with ``to`` and terms.

    Raises:
        ConfigError: a key is unknown or a value unusable; the error names ``source``.
    """
    table = value if isinstance(value, dict) else {"to": value}
    _known(table, ("to", *TERMS), f"{source}: notify")
    general = _terms(table, Terms(), f"{source}: notify")
    named: dict[str, Recipient] = {}
    to = table.get("to", [])
    for number, entry in enumerate(to if isinstance(to, list) else [to], 1):
        where = f"{source}: notify.to[{number}]" if isinstance(to, list) else f"{source}: notify.to"
        terms = general
        if isinstance(entry, dict):
            _known(entry, ("address", *TERMS), where)
            terms = _terms(entry, general, where)
            entry, where = entry.get("address"), f"{where}.address"
        if not isinstance(entry, str) or not entry.strip():
            raise ConfigError(f"{where} is {_kind(entry)}; use an Apprise address such as 'slack://…'")
        for address in ADDRESSES.parse(entry, where):
            named[address] = Recipient(address, terms)
    return Recipients(tuple(named.values()), general)


def _terms(table: dict[str, Any], general: Terms, where: str) -> Terms:
    terms = general
    for key in TERMS:
        if key in table:
            terms = _with_term(terms, key, table[key], f"{where}.{key}")
    return terms


def _with_term(terms: Terms, key: str, value: Any, where: str) -> Terms:
    if key == "severity":
        if value not in ("warning", "critical"):
            raise ConfigError(
                f"{where} is {value!r}; use 'warning' (all alerts) or 'critical' (hangs and crashes)"
            )
        return replace(terms, severity=value)
    if key == "language":
        if value not in LANGUAGES:
            raise ConfigError(f"{where} is {value!r}; use {' or '.join(map(repr, LANGUAGES))}")
        return replace(terms, language=value)
    if key == "remind_every":
        return replace(terms, remind_every_s=_reminder_s(value, where))
    if key == "quiet_hours":
        return replace(terms, quiet_hours=_quiet_hours(value, where))
    if not isinstance(value, bool):
        raise ConfigError(f"{where} is {value!r}; use true or false")
    return replace(terms, quiet_critical=value) if key == "quiet_critical" else replace(terms, summary=value)


def _reminder_s(value: object, where: str) -> float | None:
    if value in ("", False):
        return None
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    every_s = float(match[1]) * _SECONDS[match[2]] if match is not None else 0.0
    if not LEAST_REMINDER_S <= every_s < 1e9:
        raise ConfigError(f"{where} is {value!r}; use a time such as '2h' or '30m', a minute or more")
    return every_s


def _quiet_hours(value: object, where: str) -> QuietHours | None:
    if value in ("", False):
        return None
    match = _QUIET.fullmatch(value.strip()) if isinstance(value, str) else None
    try:
        first, minute, last, end_minute = map(int, match.groups()) if match is not None else (0, 0, 0, 0)
        begin, end = time(first, minute), time(last % 24 if end_minute == 0 else last, end_minute)
    except ValueError:
        begin = end = time()
    if begin == end:
        raise ConfigError(f"{where} is {value!r}; use two times of the day, such as '22:00-07:00'")
    return QuietHours(begin, end)


def _known(table: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            raise ConfigError(f"{where} has the unknown key {key!r}; use {', '.join(keys)}")


def _kind(value: object) -> str:
    """Return only the type of a wrong value: the value may be part of a secret."""
    return "missing" if value is None else "empty" if value == "" else f"a {type(value).__name__}"
