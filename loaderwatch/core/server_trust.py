"""Requests to servers that have proven their identity: TLS certificates, and challenge and answer.

On a shared machine, another user may listen at our server's old address, and would receive token, stacks and
paths. So each connection first carries a random challenge. The server answers with its HMAC under each secret
that it knows. No side sends a secret, and an answer fits one challenge. Only ``Connection`` sends tokens.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import secrets
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec

from loaderwatch.core.environment_variables import CA_FILE
from loaderwatch.core.wire import UNDECODABLE, decode_json

IDENTITY_PATH: Final = "/api/v1/identity"
CHALLENGE_PATTERN: Final = r"^[0-9a-f]{32,128}$"
MAX_PROOF_BYTES: Final = 65536
_PURPOSE: Final = b"loaderwatch server identity\n"
"""A text in each proof, so a proof cannot be used where a token is the key for something else."""


class NotProven(Exception):
    """A server did not prove that it knows our token; the text says how."""


class Away(Exception):
    """The server is too busy to prove its identity, or a proxy answers in its place."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(f"answers {status}")
        self.status = status
        self.retry_after = retry_after


class Identity(msgspec.Struct, frozen=True):
    """A server's answer to a challenge: one proof for each token it knows."""

    proofs: list[str]


def new_challenge() -> str:
    """Return a challenge that was never used before."""
    return secrets.token_hex(16)


def proofs(tokens: Iterable[str], challenge: str) -> Identity:
    """Return the server's answer to a challenge, with one proof for each token."""
    return Identity([_proof(token, challenge) for token in tokens])


def secret_at(token: str, url: str) -> str:
    """Return the secret with which one of several servers with the same token proves its address."""
    return f"{token}\n{url}"


def check_proof(token: str, challenge: str, answer: bytes) -> None:
    """Check a server's answer on the asking side.

    Raises:
        NotProven: the answer is not from a server that knows this token.
    """
    try:
        identity = decode_json(answer, Identity)
    except UNDECODABLE:
        raise NotProven("it does not answer as a loaderwatch server does") from None
    known = _proof(token, challenge)
    if not any(hmac.compare_digest(known.encode(), proof.encode()) for proof in identity.proofs):
        raise NotProven("it does not know this token")


def connect(url: str, timeout_s: float, certificate: str | None = None) -> http.client.HTTPConnection:
    """Make a connection to an http or https address, which connects with the first request.

    ``certificate`` is our own server's; if given, no other certificate is trusted.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "https":
        context = client_context(certificate)
        return http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=timeout_s, context=context
        )
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)


@dataclass(frozen=True, slots=True)
class Server:
    """A server, with the data that a request to it needs."""

    url: str
    token: str | None
    certificate: str | None = None  # our own server's certificate, if it uses TLS
    key: str | None = None  # our own server's key, which the server must know besides the token
    page_url: str | None = None  # the address that a person opens


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's answer to one request."""

    status: int
    body: bytes
    retry_after: str | None


class Connection:
    """Carries requests to one server, which proves its identity on each new connection first.

    The next request reopens a closed connection. The server then proves its identity again, because another
    process may listen at the address by now.
    """

    def __init__(self, server: Server, timeout_s: float) -> None:
        """Open no connection yet. ``timeout_s`` limits connecting, and the server's proof."""
        self._server = server
        self._timeout_s = timeout_s
        self._folder = urllib.parse.urlsplit(server.url).path.rstrip("/")
        self._open: http.client.HTTPConnection | None = None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        most_bytes: int | None = None,
    ) -> Answer:
        """Send one request with the token to an API path, and read at most ``most_bytes`` of the answer.

        Without a token, no server can prove its identity. Then data may be read from it, but none is sent.

        Raises:
            NotProven: the server did not prove its identity.
            Away: the server is too busy to prove its identity, or a proxy answers in its place.
            OSError, http.client.HTTPException: nobody answers, or the other end is not a web server.
            ValueError: the port or the token cannot be put into a request.
        """
        token = self._server.token
        try:
            if token or method != "GET":
                self.prove()
            if self._open is None:
                self._open = self._connected()
            self._open.sock.settimeout(timeout_s)
            authorization = {"Authorization": f"Bearer {token}"} if token else {}
            target = f"{self._folder}/api/v1{path}"
            self._open.request(method, target, body, {**(headers or {}), **authorization})
            response = self._open.getresponse()
            answer = Answer(response.status, response.read(most_bytes), response.getheader("Retry-After"))
        except BaseException:
            self.close()
            raise
        if response.will_close or not response.isclosed():
            self.close()
        return answer

    def prove(self) -> None:
        """Have the server prove its identity, unless it has done so on the open connection.

        Raises:
            NotProven, Away, OSError, http.client.HTTPException, ValueError: as ``ask``.
        """
        if not self._server.token:
            raise NotProven("there is no token to check it by")
        if self._open is not None:
            return
        connection = self._connected()
        try:
            self._have_proven(connection)
        except BaseException:
            connection.close()
            raise
        self._open = connection

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connected(self) -> http.client.HTTPConnection:
        connection = connect(self._server.url, self._timeout_s, self._server.certificate)
        try:
            connection.connect()
        except BaseException:
            connection.close()
            raise
        # From here on, a closed connection is an error, because a new one might lead to another server.
        connection.auto_open = 0
        return connection

    def _have_proven(self, connection: http.client.HTTPConnection) -> None:
        challenge = new_challenge()
        with _within(self._timeout_s, connection.sock):
            connection.request("GET", f"{self._folder}{IDENTITY_PATH}?challenge={challenge}")
            response = connection.getresponse()
            body = response.read(MAX_PROOF_BYTES)
        if response.status == 429 or response.status >= 500:
            raise Away(response.status, response.getheader("Retry-After"))
        if response.status != 200:
            raise NotProven(f"it answers {response.status}")
        for secret in (self._server.token, self._server.key):
            if secret:
                check_proof(secret, challenge, body)
        if connection.sock is None:
            raise ConnectionError("it hangs up after its proof")


def prove(server: Server, timeout_s: float) -> None:
    """Have a server prove its identity on a connection of its own.

    Raises:
        NotProven, Away, OSError, http.client.HTTPException, ValueError: as ``Connection.ask``.
    """
    with Connection(server, timeout_s) as connection:
        connection.prove()


def is_there(server: Server, timeout_s: float) -> bool:
    """Whether this server itself answers at its address."""
    try:
        prove(server, timeout_s)
    # ValueError: the certificate or the port cannot be used.
    except (NotProven, Away, OSError, http.client.HTTPException, ValueError):
        return False
    return True


@contextmanager
def _within(seconds: float, sock: socket.socket) -> Iterator[None]:
    """Close the socket after so many seconds. Its own timeout would restart with each received byte."""

    def hang_up() -> None:
        with suppress(OSError):
            socket.socket.shutdown(sock, socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def client_context(certificate: str | None = None) -> ssl.SSLContext:
    """Return the TLS context that checks a server.

    Args:
        certificate: PEM of our own server, from our data directory. Then no other certificate is trusted, and
            the host name is not checked. None: the system's CAs (or SSL_CERT_FILE) and LOADERWATCH_CA_FILE.

    Raises:
        OSError: LOADERWATCH_CA_FILE cannot be used.
    """
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be self-signed
        context.load_verify_locations(cadata=certificate)
        return context
    context = ssl.create_default_context()
    ca_file = CA_FILE.read()
    if ca_file:
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # ssl.SSLError is one
            raise OSError(f"{CA_FILE.name}={ca_file} cannot be used: {error}") from error
    return context


def explain(error: Exception) -> str:
    """Describe a connection's error; for an untrusted certificate, say what to do."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted here: {error.verify_message}; put the CA that signed it into a"
            f" file and its path into {CA_FILE.name}"
        )
    return str(error)


def _proof(token: str, challenge: str) -> str:
    key = token.encode("utf-8", "surrogateescape")
    return hmac.new(key, _PURPOSE + challenge.encode(), hashlib.sha256).hexdigest()
