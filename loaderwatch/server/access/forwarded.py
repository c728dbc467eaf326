"""The headers of a request that one server passes on to another: who asks, and what he may do there.

Only servers can write them: the key is made of a token that those of one database share, and does not tell it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

from loaderwatch.server.access.tokens import Access, Tokens, hmac_equal

FORWARDED_KEY: Final = "loaderwatch.forwarded"
"""The key in the scope of a request that another server has passed on, with True."""
_KEY: Final = "loaderwatch-peer"
_ACCESS: Final = "loaderwatch-access"
_CALLER: Final = "loaderwatch-caller"
HEADERS: Final = (_KEY, _ACCESS, _CALLER)


@dataclass(frozen=True, slots=True)
class Forwarded:
    """What the server says that the request came to."""

    access: Access
    caller: str


def headers_of(forwarded: Forwarded, tokens: Tokens) -> dict[str, str]:
    """Return the headers to pass a request on with."""
    return {_KEY: _key(tokens), _ACCESS: str(forwarded.access.value), _CALLER: forwarded.caller}


def forwarded_by(headers: Headers, tokens: Tokens | None) -> Forwarded | None:
    """Return what another server says of a request; None where it does not come from one."""
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
