"""Which servers are trusted: TLS certificates, and challenge and answer, by which a server proves that it knows a token.

On a shared machine another user may listen where our server was, and would receive token, stacks and paths. So
whoever is about to send first sends a random challenge, and the server answers with its HMAC under each token that it
knows. Neither side sends a token, and an answer fits no other challenge.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import secrets
import ssl
import urllib.parse
from collections.abc import Iterable
from typing import Final

import msgspec

from loaderwatch.core.wire import decode_json

CA_FILE: Final = "LOADERWATCH_CA_FILE"
IDENTITY_PATH: Final = "/api/v1/identity"
CHALLENGE_PATTERN: Final = r"^[0-9a-f]{32,128}$"
MAX_PROOF_BYTES: Final = 65536
_PURPOSE: Final = b"loaderwatch server identity\n"
"""The text that is part of each proof, so that a proof cannot be used where a token keys something else."""


class NotProven(Exception):
    """A server did not show that it knows our token; the text says how."""


class Away(Exception):
    """The server is too busy to prove itself, or a proxy answers in its place."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(f"answers {status}")
        self.status = status
        self.retry_after = retry_after


class Identity(msgspec.Struct, frozen=True):
    """A server's answer to a challenge: one proof for each token it knows."""

    proofs: list[str]


def new_challenge() -> str:
    """A challenge that was never used before."""
    return secrets.token_hex(16)


def proofs(tokens: Iterable[str], challenge: str) -> Identity:
    """Answer a challenge on the server's side, with one proof for each token."""
    return Identity([_proof(token, challenge) for token in tokens])


def check_proof(token: str, challenge: str, answer: bytes) -> None:
    """Check a server's answer on the asking side.

    Raises:
        NotProven: the answer is not one of a server that knows this token.
    """
    try:
        identity = decode_json(answer, Identity)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
        raise NotProven("it does not answer as a loaderwatch server does") from None
    known = _proof(token, challenge)
    if not any(hmac.compare_digest(known.encode(), proof.encode()) for proof in identity.proofs):
        raise NotProven("it does not know this token")


def connect(url: str, timeout_s: float, certificate: str | None = None) -> http.client.HTTPConnection:
    """Make a connection to an http or https address, which connects with the first request.

    ``certificate`` is our own server's; if given, no other is trusted.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        context = client_context(certificate)
        return http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=context
        )
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)


def have_proven(connection: http.client.HTTPConnection, folder: str, token: str | None) -> None:
    """Challenge the server at the other end; ``folder`` is the path of its address.

    When this returns, the connection is open and leads to a server that knows the token; it does not reopen by itself.

    Raises:
        NotProven: the server did not prove that it knows the token, or there is no token to check it by.
        Away: the server is too busy, or a proxy answers in its place.
        OSError, http.client.HTTPException: nobody answers.
    """
    if not token:
        raise NotProven("there is no token to check it by")
    challenge = new_challenge()
    connection.request("GET", f"{folder.rstrip('/')}{IDENTITY_PATH}?challenge={challenge}")
    # From here on a closed connection is an error, because a new one might lead to another server.
    connection.auto_open = 0
    response = connection.getresponse()
    body = response.read(MAX_PROOF_BYTES)
    if response.status == 429 or response.status >= 500:
        raise Away(response.status, response.getheader("Retry-After"))
    if response.status != 200:
        raise NotProven(f"it answers {response.status}")
    check_proof(token, challenge, body)


def prove(url: str, token: str | None, certificate: str | None, timeout_s: float) -> None:
    """Ask a server on a connection of its own whether it knows a token.

    Raises:
        NotProven, Away: as ``have_proven``.
        OSError, http.client.HTTPException: nobody answers, or the other end is no web server.
    """
    connection = connect(url, timeout_s, certificate)
    try:
        have_proven(connection, urllib.parse.urlsplit(url).path, token)
    finally:
        connection.close()


def is_our_server(url: str, token: str | None, certificate: str | None, timeout_s: float) -> bool:
    """Whether a loaderwatch server that knows this token is alive at an address."""
    try:
        prove(url, token, certificate, timeout_s)
    except (
        NotProven,
        Away,
        OSError,
        http.client.HTTPException,
        ValueError,
    ):  # ValueError: the certificate or the port cannot be used
        return False
    return True


def client_context(certificate: str | None = None) -> ssl.SSLContext:
    """Return the TLS context that checks a server.

    Args:
        certificate: PEM of our own server, from its file in our data directory: no other is trusted, and its name does
            not matter. None trusts the system's CAs (or SSL_CERT_FILE) and those in LOADERWATCH_CA_FILE.

    Raises:
        OSError: LOADERWATCH_CA_FILE cannot be used.
    """
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be signed by itself
        context.load_verify_locations(cadata=certificate)
        return context
    context = ssl.create_default_context()
    ca_file = os.environ.get(CA_FILE)
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise OSError(f"{CA_FILE}={ca_file} cannot be used: {error}") from error
    return context


def explain(error: Exception) -> str:
    """Describe a connection's error; for a certificate that is not trusted, say what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted here: {error.verify_message}; put the CA that signed it into a file and its"
            f" path into {CA_FILE}"
        )
    return str(error)


def _proof(token: str, challenge: str) -> str:
    key = token.encode("utf-8", "surrogateescape")
    return hmac.new(key, _PURPOSE + challenge.encode(), hashlib.sha256).hexdigest()
