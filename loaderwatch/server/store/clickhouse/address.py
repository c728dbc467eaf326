"""The address of a ClickHouse database: ``clickhouse://user:password@host:8123/database``."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from loaderwatch.core.errors import ConfigError

SCHEMES: Final = {"clickhouse": ("http", 8123), "clickhouses": ("https", 8443)}
PASSWORD_VARIABLE: Final = "LOADERWATCH_CLICKHOUSE_PASSWORD"
_EXAMPLE: Final = "clickhouse://user@host:8123/database"
_DATABASE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where the database is, and as whom it is used."""

    interface: str  # "http" | "https"
    host: str
    port: int
    user: str
    database: str
    password: str = field(repr=False)

    @property
    def cookie_key(self) -> str:
        """What the servers of the database know and nobody else, for the cookies that each takes of the others."""
        return hashlib.sha256(f"loaderwatch cookies\n{self.database}\n{self.password}".encode()).hexdigest()

    def __str__(self) -> str:
        """Return it as people may see it, without the password."""
        return f"{self.host}:{self.port}/{self.database}"


def parse_address(text: str) -> Address:
    """Read the address of ``--store``. The password comes from it, from its ``?password_file=``, or from the environment.

    Raises:
        ConfigError: it cannot be used. The message never holds the text, which may hold a password.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ConfigError(
            f"--store is not an address such as {_EXAMPLE}: its host or port is wrong"
        ) from None
    if parts.scheme not in SCHEMES:
        raise ConfigError(f"--store takes {_EXAMPLE}, or clickhouses:// for TLS; this one begins otherwise")
    if not parts.hostname:
        raise ConfigError(f"--store names no host; write {_EXAMPLE}")
    interface, usual_port = SCHEMES[parts.scheme]
    database = unquote(parts.path.strip("/")) or "loaderwatch"
    if not _DATABASE.fullmatch(database):
        raise ConfigError(
            "the database of --store may have letters, digits and _ in its name; "
            f"{database[:40]!r} is not such a name"
        )
    return Address(
        interface=interface,
        host=parts.hostname,
        port=usual_port if port is None else port,
        user=unquote(parts.username or "default"),
        database=database,
        password=_password(parts),
    )


def _password(parts: SplitResult) -> str:
    options = parse_qs(parts.query, keep_blank_values=True)
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
    if parts.password is not None:
        return unquote(parts.password)
    return os.environ.get(PASSWORD_VARIABLE, "")
