"""Who may come in: tokens, the cookie, and the checks of Host and Origin.

Loopback is not private: other people share the machine, and any web page a person visits can send requests to it.
So a token is asked for even there, the Host header must be one of ours (DNS rebinding), and what changes something
or streams must come from our own page (Origin, Sec-Fetch-Site).
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import json
import os
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from loaderwatch.core.errors import ConfigError

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})


class Access(enum.Flag):
    """What a caller may do."""

    NOTHING = 0
    INGEST = enum.auto()
    VIEW = enum.auto()
    ALL = INGEST | VIEW


@dataclass(frozen=True, slots=True)
class Tokens:
    """The data directory's two tokens, and the one given on the command line, which may do everything."""

    agent: str
    viewer: str
    extra: str | None = None

    @property
    def page_token(self) -> str:
        """The token to put into the printed address."""
        return self.extra or self.viewer

    def access(self, token: str) -> Access:
        """What the bearer of this token may do, in constant time."""
        given = token.encode("utf-8", "surrogateescape")
        granted = Access.NOTHING
        for known, access in (
            (self.agent, Access.INGEST),
            (self.viewer, Access.VIEW),
            (self.extra, Access.ALL),
        ):
            if known is not None and hmac.compare_digest(known.encode(), given):
                granted |= access
        return granted

    def cookie(self) -> str:
        """What a browser holds instead of the token: it opens the page here and nothing else."""
        key = f"{self.viewer}\n{self.extra or ''}".encode()
        return hmac.new(key, b"loaderwatch page cookie", hashlib.sha256).hexdigest()


def load_tokens(path: Path, extra: str | None = None) -> Tokens:
    """The tokens in ``path``, made on first use and readable by their owner only.

    Raises:
        ConfigError: the file is there and is not what this function writes.
        OSError: it cannot be read or written.
    """
    try:
        found = json.loads(path.read_text())
        agent, viewer = found["agent"], found["viewer"]
        if not (isinstance(agent, str) and isinstance(viewer, str) and agent and viewer):
            raise TypeError("not two texts")
    except FileNotFoundError:
        agent, viewer = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        write_private(path, json.dumps({"agent": agent, "viewer": viewer}))
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not hold two tokens ({error}); delete it to get new ones") from error
    return Tokens(agent, viewer, extra)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, mode 0600."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o600)  # the mode above counts only for a file that was not there
        file.write(text)
    draft.replace(path)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names this server answers to."""

    names: frozenset[str]
    any_address: bool  # any IP literal: nobody can rebind a number

    def allows(self, host_header: str) -> bool:
        """Whether a Host header names this server; the port does not matter."""
        name = host_name(host_header)
        if name in self.names:
            return True
        if not self.any_address:
            return False
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def allowed_hosts(bound: str, extra: Iterable[str]) -> AllowedHosts:
    """Loopback names, the bound host, and what the command line adds."""
    wildcard = bound in _WILDCARDS
    names = set(LOOPBACK_NAMES) | {host_name(name) for name in extra}
    if wildcard:
        own = socket.gethostname().lower()
        names |= {own, own.partition(".")[0], socket.getfqdn().lower()}
    else:
        names.add(bound.lower())
    return AllowedHosts(frozenset(names), wildcard)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server bound there."""
    if host in LOOPBACK_NAMES:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_name(header: str) -> str:
    """A Host header without its port, lower case."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    if text.count(":") > 1:  # an IPv6 address without brackets, from the command line
        return text
    return text.partition(":")[0]


def same_origin(origin: str | None, fetch_site: str | None, host_header: str) -> bool:
    """Whether a request comes from our own page, or from a program (which sends neither header)."""
    if fetch_site is not None and fetch_site not in ("same-origin", "none"):
        return False
    if origin is None:
        return True
    return origin.partition("://")[2].lower() == host_header.strip().lower()


def hmac_equal(given: str, known: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())
