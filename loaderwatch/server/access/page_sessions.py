"""Sessions of the page. A browser signs each request and sends nothing that gives access later.

A cookie reaches every process that listens on any port of the host. A secret in a header reaches another user
who has taken over the server's port. So the page keeps a key that it never sends:

1. The page asks for a *ticket*, which the server makes with the key of its data directory.
2. Both sides make the session's key from the token and the ticket. The server proves that it knows the key.
3. The page signs method, address, body and time of each request, and the *boots* that it has seen: random
   names of server processes. A server accepts only requests with its own boot. So a request that another
   process received while the server was dead is useless once the server is back.
4. A ticket is valid only at the address where that server listens. A process that has taken over a page's
   address cannot pass the page's requests on to a server that has moved to another port.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from loaderwatch.server.access.tokens import Access, Tokens, hmac_equal

SESSION_PATH: Final = "/api/v1/session"
TICKET_PATTERN: Final = r"^[0-9]{1,12}-[0-9a-f]{32}-[0-9a-f]{64}$"
READ_S: Final = 30 * 86400
"""Seconds for which a session may read: a page on a wall should outlast a training."""
CHANGE_S: Final = 86400
"""Seconds for which the owner's session may also change things: a day's work."""
WINDOW_S: Final = 60.0
"""Largest difference of a signed time from ours. The page knows our clock to 1 s, but may be suspended."""
SIGNED_BYTES: Final = 16 * 1024
"""Longest body of a signed request, in bytes. The page's longest are notes of 2,000 characters."""
_MOST_PROOF_BYTES: Final = 512
"""Longest proof in an address, in bytes: ticket, time, four boots and signature take 250."""
_PARAMETER: Final = b"proof="
_TIME_MS: Final = re.compile(r"[0-9]{1,15}")
"""A signed time, in ms since 1970. Fifteen digits last for 30,000 years and fit a float."""


class Greeting(msgspec.Struct, frozen=True):
    """The first answer to a page: its proofs show that we know the token."""

    ticket: str
    boot: str
    now_ms: int
    proofs: list[str]


@dataclass(frozen=True, slots=True)
class Proof:
    """The last parameter of a signed address, and what it signs."""

    method: str
    target: str  # path and query, without the proof
    ticket: str
    sent_ms: int
    boots: str
    signature: str
    host: str  # the Host header

    def text(self, body: bytes) -> bytes:
        """Return the signed bytes."""
        head = ("request", str(self.sent_ms), self.boots, self.method, self.target, "")
        return "\n".join(head).encode("latin-1") + body


class PageSessions:
    """The sessions that this server process accepts. Tickets are signed, so none must be stored."""

    def __init__(
        self, clock: Callable[[], float] = time.time, *, listens_at: str = "", public_url: str | None = None
    ) -> None:
        """Start without sessions. ``listens_at``: numeric address and port of the listening socket."""
        self.boot: Final = secrets.token_hex(8)
        self._clock = clock
        # Servers of one data directory on a shared disk may listen at the same address of several machines.
        self._listens_at = f"{socket.gethostname()} {listens_at}"
        self._public_url = public_url or ""
        self._public_host = urlsplit(self._public_url).netloc.lower()
        # signatures of requests that changed something, and until when they are kept
        self._used: dict[str, float] = {}

    def greet(self, tokens: Tokens | None, challenge: str, ticket: str | None, host: str) -> Greeting:
        """Answer a page that wants to start a session, or to continue the one of ``ticket``.

        ``host``: the Host header of its request.
        """
        now_s = self._clock()
        if tokens is None:
            return Greeting("", self.boot, int(now_s * 1000), [])
        if ticket is None or self._age_s(tokens, ticket, host) is None:
            issued = f"{int(now_s)}-{secrets.token_hex(16)}"
            ticket = f"{issued}-{self._mac(tokens, issued, host)}"
        signed = "\n".join(("server", challenge, ticket, self.boot, str(int(now_s * 1000))))
        proofs = [_sign(session_key(token, ticket), signed.encode()) for token, _ in tokens.of_page()]
        return Greeting(ticket, self.boot, int(now_s * 1000), proofs)

    def proof_of(self, request: Request, tokens: Tokens) -> Proof | None:
        """Return the proof in a request's address if it is recent, for this process and its session valid."""
        query: bytes = request.scope["query_string"]
        head, separator, text = query.rpartition(_PARAMETER)
        if not separator or len(text) > _MOST_PROOF_BYTES or not (head == b"" or head.endswith(b"&")):
            return None
        path = request.scope.get("raw_path") or request.scope["path"].encode()
        target = path + (b"?" + head[:-1] if head else b"")
        try:
            ticket, sent, boots, signature = text.decode("ascii").split(".")
        except ValueError:
            return None
        if _TIME_MS.fullmatch(sent) is None:
            return None
        host = request.headers.get("host", "")
        proof = Proof(request.method, target.decode("latin-1"), ticket, int(sent), boots, signature, host)
        fresh = abs(self._clock() - proof.sent_ms / 1000) <= WINDOW_S and self.boot in boots.split("-")
        return proof if fresh and self._age_s(tokens, ticket, host) is not None else None

    def access(self, proof: Proof, body: bytes, tokens: Tokens) -> Access:
        """Return what the signed request may do. A request that changes something counts once."""
        age_s = self._age_s(tokens, proof.ticket, proof.host)
        if age_s is None:
            return Access.NOTHING
        granted = Access.NOTHING
        for token, access in tokens.of_page():
            if hmac_equal(proof.signature, _sign(session_key(token, proof.ticket), proof.text(body))):
                granted |= access
        if age_s > CHANGE_S:
            granted &= ~Access.CHANGE
        if granted and proof.method not in ("GET", "HEAD") and not self._first_use(proof.signature):
            return Access.NOTHING
        return granted

    def _first_use(self, signature: str) -> bool:
        now_s = self._clock()
        while self._used and next(iter(self._used.values())) < now_s:
            del self._used[next(iter(self._used))]
        if signature in self._used:
            return False
        self._used[signature] = now_s + 2 * WINDOW_S  # a time that far ahead is accepted, too
        return True

    def _age_s(self, tokens: Tokens, ticket: str, host: str) -> float | None:
        """Return a ticket's age; None if it was not made here or is too old."""
        issued, _, mac = ticket.rpartition("-")
        if not hmac_equal(mac, self._mac(tokens, issued, host)):
            return None
        age_s = self._clock() - int(issued.partition("-")[0])
        return age_s if age_s <= READ_S else None

    def _mac(self, tokens: Tokens, issued: str, host: str) -> str:
        place = f"{self._listens_at}\n{self._public_url}\n{tokens.page_key}"
        if tokens.shared_key and self._public_host and host.strip().lower() == self._public_host:
            place = self._public_url  # the balancer's address: the session is valid for all servers behind it
        key = tokens.shared_key or tokens.page_key
        return _hmac(key, f"loaderwatch page ticket\n{issued}\n{place}").hex()


def session_key(token: str, ticket: str) -> bytes:
    """Return the session's key, which browser and server each make from a token."""
    return _hmac(token, f"loaderwatch page session\n{ticket}")


def _hmac(key: str, text: str) -> bytes:
    return hmac.new(key.encode("utf-8", "surrogateescape"), text.encode(), hashlib.sha256).digest()


def _sign(key: bytes, text: bytes) -> str:
    return hmac.new(key, text, hashlib.sha256).hexdigest()
