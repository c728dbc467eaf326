"""Tokens, and the checks of Host and Origin.

Loopback is not private: other people share the machine, and any web page that a person visits can send
requests to it. So a token is needed there too, and the Host header must be one of ours (DNS rebinding). A
request that changes something or streams must come from our own page (Origin, Sec-Fetch-Site).
"""

from __future__ import annotations

import enum
import hmac
import json
import re
import secrets
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from loaderwatch.core.errors import ConfigError
from loaderwatch.core.files import check_own, read_own, write_atomically

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST: Final = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^:\[\]]*))(?::[0-9]*)?")
"""A name, or an IPv6 address in brackets, and a port."""
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})


class Access(enum.Flag):
    """What a caller may do."""

    NOTHING = 0
    INGEST = enum.auto()
    VIEW = enum.auto()
    CHANGE = enum.auto()  # acknowledge, silence, ask for stacks
    PAGE = VIEW | CHANGE
    ALL = INGEST | PAGE


@dataclass(frozen=True, slots=True)
class Tokens:
    """The data directory's three tokens, and two that a person may give: for everything and for agents."""

    agent: str
    viewer: str
    owner: str
    extra: str | None = None
    extra_agent: str | None = None
    """A second agent token, from a person, for containers of jobs and server that must both know one."""
    page_key: str = field(default_factory=lambda: _new_token(), repr=False)
    """The data directory's random key, from which the page's sessions start."""
    shared_key: str | None = field(default=None, repr=False)
    """The key that servers of one database share, so that each accepts the others' page sessions."""

    @property
    def page_token(self) -> str:
        """The token in the printed address."""
        return self.extra or self.owner

    def access(self, token: str) -> Access:
        """Return what the bearer of this token may do, in constant time."""
        granted = Access.NOTHING
        for known, access in self._known():
            if hmac_equal(token, known):
                granted |= access
        return granted

    def of_page(self) -> list[tuple[str, Access]]:
        """Return the tokens that allow a person to sign in, and the most that a session of each may do."""
        return [(token, access & Access.PAGE) for token, access in self._known() if access & Access.PAGE]

    def all(self) -> list[str]:
        """Return every token."""
        return [token for token, _ in self._known()]

    def _known(self) -> list[tuple[str, Access]]:
        given = [(self.extra, Access.ALL), (self.extra_agent, Access.INGEST)]
        own = [(self.agent, Access.INGEST), (self.viewer, Access.VIEW), (self.owner, Access.PAGE)]
        return own + [(token, access) for token, access in given if token is not None]


class Keys:
    """The tokens in force. They change while the server runs after a ``loaderwatch token rotate``."""

    def __init__(self, tokens: Tokens | None) -> None:
        """Start with these tokens; None lets everyone in."""
        self.tokens = tokens
        self.server_key = secrets.token_urlsafe(24)
        """Identifies this server: only this process and readers of its ``server.json`` know it."""

    def reread(self, path: Path) -> bool:
        """Read the file again; return whether its tokens are new. An unusable file changes nothing.

        Raises:
            ConfigError: the file does not hold tokens.
            OSError: the file cannot be read.
        """
        if self.tokens is None:
            return False
        tokens = self.tokens
        new_tokens = replace(
            _read_tokens(path, tokens.extra), extra_agent=tokens.extra_agent, shared_key=tokens.shared_key
        )
        changed = new_tokens != self.tokens
        self.tokens = new_tokens
        return changed


def load_tokens(path: Path, extra: str | None = None) -> Tokens:
    """Return the tokens in ``path``, which is created on first use and readable by its owner only.

    Raises:
        ConfigError: the file exists but does not hold tokens.
        OSError: the file cannot be read or written.
    """
    try:
        return _read_tokens(path, extra)
    except FileNotFoundError:
        return replace(rotate_tokens(path), extra=extra)


def rotate_tokens(path: Path) -> Tokens:
    """Write new tokens and a new key for the page's sessions.

    Raises:
        OSError: the file cannot be written.
    """
    tokens = Tokens(*(_new_token() for _ in range(3)))
    _write_tokens(path, tokens)
    return tokens


def _read_tokens(path: Path, extra: str | None) -> Tokens:
    try:
        stored = json.loads(read_own(path))
        agent, viewer, owner = stored["agent"], stored["viewer"], stored.get("owner")
        if owner is None:
            # In files with two tokens the viewer token could acknowledge alerts; its holder keeps that right.
            viewer, owner = _new_token(), viewer
        page_key = stored.get("page_key", "") or _new_token()
        if not all(isinstance(token, str) and token for token in (agent, viewer, owner, page_key)):
            raise TypeError("a token is no text")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} does not hold the tokens ({error}); delete it to get new ones") from error
    tokens = Tokens(agent, viewer, owner, extra, page_key=page_key)
    if "owner" not in stored or "page_key" not in stored:  # a file of an older version
        _write_tokens(path, tokens)
    return tokens


def _new_token() -> str:
    return secrets.token_urlsafe(24)


def _write_tokens(path: Path, tokens: Tokens) -> None:
    kept = {
        "agent": tokens.agent,
        "viewer": tokens.viewer,
        "owner": tokens.owner,
        "page_key": tokens.page_key,
    }
    check_own(path.parent, sticky_too=True)
    write_atomically(path, json.dumps(kept).encode())


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The host names that this server answers to."""

    names: frozenset[str]
    any_address: bool  # any IP address is allowed too, since DNS cannot rebind an address

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
    """Return the loopback names, the bound host, and the names from the command line."""
    wildcard = bound in _WILDCARDS
    names = set(LOOPBACK_NAMES) | {host_name(name) for name in extra}
    if wildcard:
        own = socket.gethostname().lower()
        names |= {own, own.partition(".")[0], socket.getfqdn().lower()}
    else:
        names.add(bound.lower())
    return AllowedHosts(frozenset(names - {""}), wildcard)


def host_name(header: str) -> str:
    """Return a Host header's name without port, in lower case; "" if something else follows the name."""
    text = header.strip().lower()
    # an IPv6 address without brackets, from the command line
    if text.count(":") > 1 and not text.startswith("["):
        return text
    match = _HOST.fullmatch(text)
    return (match["address"] or match["name"]) if match else ""


def same_origin(
    origin: str | None, fetch_site: str | None, host_header: str, *, secure: bool = False
) -> bool:
    """Whether a request comes from our own page or from a program, which sends neither header.

    ``secure``: the request came over TLS, so a page that was loaded without TLS is another site's.
    """
    if fetch_site is not None and fetch_site not in ("same-origin", "none"):
        return False
    if origin is None:
        return True
    scheme, _, host = origin.partition("://")
    return host.lower() == host_header.strip().lower() and (scheme == "https" or not secure)


def hmac_equal(given: str, known: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())
