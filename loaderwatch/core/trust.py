"""How a server shows that it knows a token before anybody sends it one.

On a machine that several people use, another may listen where our server was, and would be given token, stacks and
paths. So whoever is about to send asks first: a random challenge, to which the server answers with its HMAC under
each token it knows. Neither side says a token, and an answer is worth nothing for another challenge.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from typing import Final

import msgspec

IDENTITY_PATH: Final = "/api/v1/identity"
CHALLENGE_PATTERN: Final = r"^[0-9a-f]{32,128}$"
_PURPOSE: Final = (
    b"loaderwatch server identity\n"  # a proof is good for nothing else that is keyed with a token
)


class NotProven(Exception):
    """A server did not show that it knows our token; the text says how."""


class Identity(msgspec.Struct, frozen=True):
    """A server's answer to a challenge: one proof for each token it knows."""

    proofs: list[str]


def new_challenge() -> str:
    """A challenge that was never used before."""
    return secrets.token_hex(16)


def proofs(tokens: Iterable[str], challenge: str) -> Identity:
    """The server's side."""
    return Identity([_proof(token, challenge) for token in tokens])


def check_proof(token: str, challenge: str, answer: bytes) -> None:
    """The asking side.

    Raises:
        NotProven: the answer is not one of a server that knows this token.
    """
    try:
        identity = msgspec.json.decode(answer, type=Identity)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        raise NotProven("it does not answer as a loaderwatch server does") from None
    known = _proof(token, challenge)
    if not any(hmac.compare_digest(known.encode(), proof.encode()) for proof in identity.proofs):
        raise NotProven("it does not know this token")


def _proof(token: str, challenge: str) -> str:
    key = token.encode("utf-8", "surrogateescape")
    return hmac.new(key, _PURPOSE + challenge.encode(), hashlib.sha256).hexdigest()
