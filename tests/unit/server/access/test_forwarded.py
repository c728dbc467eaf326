"""Only servers that share a token say for each other who asks."""

from __future__ import annotations

from starlette.datastructures import Headers

from loaderwatch.server.access.forwarded import Forwarded, forwarded_by, headers_of
from loaderwatch.server.access.tokens import Access, Tokens

OURS = Tokens("agent", "viewer", "owner")
SAYS = Forwarded(Access.VIEW, "10.0.0.7")


def test_what_one_server_says_the_other_reads() -> None:
    assert forwarded_by(Headers(headers_of(SAYS, OURS)), OURS) == SAYS
    shared = [Tokens("a", "v", str(number), extra="shared") for number in range(2)]
    assert forwarded_by(Headers(headers_of(SAYS, shared[0])), shared[1]) == SAYS


def test_nobody_else_says_anything() -> None:
    assert forwarded_by(Headers({}), OURS) is None
    assert forwarded_by(Headers(headers_of(SAYS, Tokens("agent", "viewer", "another"))), OURS) is None
    assert forwarded_by(Headers(headers_of(SAYS, OURS)), None) is None
    assert forwarded_by(Headers(headers_of(SAYS, OURS) | {"loaderwatch-access": "all"}), OURS) is None


def test_the_key_does_not_tell_the_token() -> None:
    assert not any("owner" in value for value in headers_of(SAYS, OURS).values())
