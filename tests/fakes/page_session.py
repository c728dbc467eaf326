"""A session of the page as the browser has one, for tests that need no browser."""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Any

import httpx

from loaderwatch.core.server_trust import new_challenge
from loaderwatch.server.access.page_sessions import SESSION_PATH, session_key


@dataclass
class PageSession:
    """What the browser keeps, and what it learned of the server's process."""

    ticket: str
    key: bytes
    boots: str

    def signed(self, method: str, target: str, body: str = "", sent_ms: int | None = None) -> str:
        """Return the address of a request with its proof."""
        sent_ms = time.time_ns() // 10**6 if sent_ms is None else sent_ms
        text = "\n".join(("request", str(sent_ms), self.boots, method, target, body))
        signature = hmac.new(self.key, text.encode(), hashlib.sha256).hexdigest()
        mark = "&" if "?" in target else "?"
        return f"{target}{mark}proof={self.ticket}.{sent_ms}.{self.boots}.{signature}"

    def ask(self, client: httpx.Client, method: str, target: str, body: str = "") -> httpx.Response:
        """Send a signed request."""
        return client.request(method, self.signed(method, target, body), content=body or None)


def greeted(client: httpx.Client, ticket: str | None = None) -> dict[str, Any]:
    """Return what the server tells a page before it is sent anything."""
    challenge = new_challenge()
    answer = client.get(
        SESSION_PATH, params={"challenge": challenge} | ({"ticket": ticket} if ticket else {})
    )
    assert answer.status_code == 200, answer.text
    return {"challenge": challenge, **answer.json()}


def sign_in(client: httpx.Client, token: str) -> PageSession:
    """Begin a session with a token; the server has to prove that it knows it."""
    greeting = greeted(client)
    key = session_key(token, greeting["ticket"])
    said = ("server", greeting["challenge"], greeting["ticket"], greeting["boot"], str(greeting["now_ms"]))
    assert hmac.new(key, "\n".join(said).encode(), hashlib.sha256).hexdigest() in greeting["proofs"]
    return PageSession(greeting["ticket"], key, greeting["boot"])
