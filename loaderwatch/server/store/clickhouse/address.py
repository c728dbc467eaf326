"""ClickHouse addresses: ``clickhouse://user:password@host:8123/database``, or several hosts of a cluster."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, unquote, urlsplit

from loaderwatch.core.environment_variables import CLICKHOUSE_PASSWORD
from loaderwatch.core.errors import ConfigError

SCHEMES: Final = {"clickhouse": ("http", 8123), "clickhouses": ("https", 8443)}
_EXAMPLE: Final = "clickhouse://user@host:8123/database"
_PARTS: Final = re.compile(
    r"(?P<scheme>\w+)://((?P<login>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?"
)
"""``urlsplit`` supports one host. With several, some Python versions raise an error."""
_DATABASE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Address:
    """The hosts and name of a database, and the user's login."""

    interface: str  # "http" | "https"
    hosts: tuple[tuple[str, int], ...]  # (host, port) in the order in which they are tried
    user: str
    database: str
    password: str = field(repr=False)

    @property
    def page_key(self) -> str:
        """A secret that only servers of this database know: each accepts the others' page sessions."""
        return hashlib.sha256(
            f"loaderwatch page sessions\n{self.database}\n{self.password}".encode()
        ).hexdigest()

    def __str__(self) -> str:
        """Return the address for people, without the password."""
        return (
            f"{','.join(f'[{h}]:{port}' if ':' in h else f'{h}:{port}' for h, port in self.hosts)}"
            f"/{self.database}"
        )


def parse_address(text: str) -> Address:
    """Parse the address of ``--store``. Its password may also come from a file or the environment.

    Raises:
        ConfigError: the address cannot be used. The message never quotes the text, which may hold a password.
    """
    parts = _PARTS.fullmatch(text)
    if parts is None or parts["scheme"] not in SCHEMES:
        raise ConfigError(f"--store takes {_EXAMPLE}, or clickhouses:// for TLS; this one begins otherwise")
    interface, usual_port = SCHEMES[parts["scheme"]]
    login = parts["login"] or ""
    try:
        hosts = tuple(_host(place, usual_port) for place in parts["hosts"].split(","))
    except ValueError:
        raise ConfigError(
            f"--store is not an address such as {_EXAMPLE}: its host or port is wrong"
        ) from None
    if not all(host for host, _ in hosts):
        raise ConfigError(f"--store names no host; write {_EXAMPLE}, or host1:8123,host2:8123 in its place")
    user, _, password = login.partition(":")
    database = unquote(parts["path"].strip("/")) or "loaderwatch"
    if not _DATABASE.fullmatch(database):
        raise ConfigError(
            "the database of --store may have letters, digits and _ in its name; "
            f"{database[:40]!r} is not such a name"
        )
    return Address(
        interface=interface,
        hosts=hosts,
        user=unquote(user or "default"),
        database=database,
        password=_password(parts["query"] or "", unquote(password) if ":" in login else None),
    )


def _host(place: str, usual_port: int) -> tuple[str, int]:
    """Return host and port; raise ValueError if the port is invalid."""
    parts = urlsplit(f"//{place}")
    return parts.hostname or "", usual_port if parts.port is None else parts.port


def _password(query: str, written: str | None) -> str:
    options = parse_qs(query, keep_blank_values=True)
    if unknown := options.keys() - {"password_file"}:
        raise ConfigError(
            f"--store has the option {min(unknown)[:40]!r}, which it does not know; use password_file"
        )
    if "password_file" in options:
        path = Path(options["password_file"][-1])
        try:
            return path.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the password_file of --store, {path}, cannot be read: {error}") from None
    if written is not None:
        return written
    return CLICKHOUSE_PASSWORD.read()
