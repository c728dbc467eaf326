"""The headers of a request that one server passes on to another: its caller, and what the caller may do.

Only servers can write them: the key is made from a token that the servers of one database share.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

from loaderwatch.server.access.tokens import Access, Tokens, hmac_equal

FORWARDED_KEY: Final = "loaderwatch.forwarded"
"""The key in the scope of a request from another server; its value is True."""
_KEY: Final = "loaderwatch-peer"
_ACCESS: Final = "loaderwatch-access"
_CALLER: Final = "loaderwatch-caller"
HEADERS: Final = (_KEY, _ACCESS, _CALLER)


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What the passing server says about a request."""

    access: Access
    caller: str


def headers_of(forwarded: Forwarded, tokens: Tokens) -> dict[str, str]:
    """Return the headers for a request to pass on."""
    return {_KEY: _key(tokens), _ACCESS: str(forwarded.access.value), _CALLER: forwarded.caller}


def forwarded_by(headers: Headers, tokens: Tokens | None) -> Forwarded | None:
    """Return what another server says about a request; None if the request is not from a server."""
    key = headers.get(_KEY)
    if key is None or tokens is None or not hmac_equal(key, _key(tokens)):
        return None
    try:
        return Forwarded(Access(int(headers.get(_ACCESS, "0"))), headers.get(_CALLER, ""))
    except ValueError:
        return None


def _key(tokens: Tokens) -> str:
    shared = tokens.page_token.encode("utf-8", "surrogateescape")
    return hmac.new(shared, b"loaderwatch server to server", hashlib.sha256).hexdigest()
