"""Requests about another server's runs are passed on to it, once, and its answers are passed back."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final
from urllib.parse import unquote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from loaderwatch.core.answers import RunRow
from loaderwatch.core.wire import UNDECODABLE
from loaderwatch.server.access.forwarded import FORWARDED_KEY, HEADERS, Forwarded, headers_of
from loaderwatch.server.access.request_gate import ACCESS_KEY
from loaderwatch.server.access.tokens import Access, Keys
from loaderwatch.server.alerts.alert_book import run_of
from loaderwatch.server.encoding import body_of, too_large
from loaderwatch.server.peers.bundles import BUNDLE_PATH, Bundles, again_soon
from loaderwatch.server.peers.client import PeerAnswer, PeerAway, PeerClient
from loaderwatch.server.recordings.incoming_runs import MOST_BYTES
from loaderwatch.server.store.clickhouse.server_heartbeats import Members, Server

_log: Final = logging.getLogger(__name__)

LIST_S: Final = 2.0
"""How long a list of runs waits for the runs of another server."""
_MOST_BODY: Final = 1 << 20
_RUNS: Final = "/api/v1/runs/"
_ALERTS: Final = "/api/v1/alerts/"
_OWN_HEADERS: Final = frozenset(
    {"host", "cookie", "origin", "content-length", "transfer-encoding", "connection", "keep-alive", "te",
     "trailer", "upgrade", "expect", *HEADERS}
)  # fmt: skip
"""The headers of a request that are meant for one server only."""
_OF_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "date", "server"})
_UNSETTLED: Final = "servers come and go, and have not settled yet who has this run; try again"
_decode_rows: Final = msgspec.json.Decoder(list[RunRow]).decode


class Peers:
    """The other servers of the database; they are asked about the runs that they own."""

    def __init__(self, members: Members, keys: Keys) -> None:
        self._members = members
        self._keys = keys
        self._said: dict[str, str] = {}  # by address: why the server could not be asked
        self.client = PeerClient(lambda: keys.tokens.page_token if keys.tokens else "")
        self._bundles = Bundles(self._post_bundle)

    @property
    def count(self) -> int:
        """How many servers there are, including this one."""
        return len(self._members.view.servers)

    def owner(self, run_id: str) -> Server | None:
        """Return the server that owns a run; None if it is this one."""
        view = self._members.view
        return None if view.owns(run_id) else view.owner(run_id)

    def passed_on(self, scope: Scope, owner: Server, body: bytes) -> Response:
        """Return the owner's answer to a request about its run; a request is passed on only once."""
        if scope.get(FORWARDED_KEY):
            return again_soon(_UNSETTLED)
        return _PassedOn(self, owner, body)

    async def pass_on(self, scope: Scope, owner: Server, body: bytes) -> Response:
        """Return the same for a body with envelopes, which is bundled with others."""
        return (
            again_soon(_UNSETTLED) if scope.get(FORWARDED_KEY) else await self._bundles.pass_on(owner, body)
        )

    async def ask(self, scope: Scope, owner: Server, body: bytes) -> PeerAnswer:
        """Send our request on to another server.

        Raises:
            PeerAway
        """
        path = scope.get("raw_path") or scope["path"].encode()
        query = scope["query_string"]
        target = (path + b"?" + query if query else path).decode("latin-1")
        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name.decode("latin-1") not in _OWN_HEADERS and not name.startswith(b"sec-")
        }
        client = scope.get("client")
        headers |= self._marks(scope[ACCESS_KEY], client[0] if client else "")
        return await self._asked(owner, scope["method"], target, headers, body)

    async def rows(self) -> tuple[list[RunRow], set[Server]]:
        """Return the rows of other servers' runs, and the servers that answered."""
        others = list(self._members.view.servers - {self._members.view.me})
        answers = await asyncio.gather(*(self._rows_of(other) for other in others))
        gave = {other for other, rows in zip(others, answers, strict=True) if rows is not None}
        return [row for rows in answers for row in rows or ()], gave

    async def _rows_of(self, other: Server) -> list[RunRow] | None:
        try:
            return await asyncio.wait_for(self._read_rows(other), LIST_S)
        except (PeerAway, asyncio.TimeoutError, *UNDECODABLE):
            return None

    async def _read_rows(self, other: Server) -> list[RunRow] | None:
        answer = await self._asked(other, "GET", "/api/v1/runs", self._marks(Access.VIEW, ""), b"")
        body = await answer.read()
        return _decode_rows(body) if answer.status == 200 else None

    async def _asked(
        self, other: Server, method: str, target: str, headers: dict[str, str], body: bytes
    ) -> PeerAnswer:
        try:
            answer = await self.client.ask(other.url, method, target, headers, body)
        except PeerAway as away:
            if self._said.get(other.url) != str(away):
                self._said[other.url] = str(away)
                _log.warning("%s", away)
            raise
        self._said.pop(other.url, None)
        return answer

    async def _post_bundle(self, owner: Server, bundle: bytes) -> bytes:
        answer = await self._asked(owner, "POST", BUNDLE_PATH, self._marks(Access.INGEST, ""), bundle)
        body = await answer.read()
        if answer.status != 200:
            raise PeerAway(not_taken(owner.url, answer.status, body))
        return body

    def _marks(self, access: Access, caller: str) -> dict[str, str]:
        tokens = self._keys.tokens
        return {} if tokens is None else headers_of(Forwarded(access, caller), tokens)


class Forwarding:
    """ASGI middleware that passes on requests about other servers' runs, but not envelopes."""

    def __init__(self, app: ASGIApp, peers: Peers) -> None:
        self._app = app
        self._peers = peers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it here."""
        run_id = run_asked_for(scope["path"]) if scope["type"] == "http" else None
        owner = None if run_id is None else self._peers.owner(run_id)
        if owner is None:
            await self._app(scope, receive, send)
            return
        most = MOST_BYTES if scope["path"].endswith("/import") else _MOST_BODY
        try:
            body = await body_of(Request(scope, receive), most)
        except ClientDisconnect:
            return
        answer = too_large(most) if body is None else self._peers.passed_on(scope, owner, body)
        await answer(scope, receive, send)


class _PassedOn(Response):
    """The answer of another server, as a response of ours."""

    def __init__(self, peers: Peers, owner: Server, body: bytes) -> None:
        super().__init__()
        self._peers = peers
        self._owner = owner
        self._asked_with = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._peers.ask(scope, self._owner, self._asked_with)
            streams = any(
                name == "content-type" and value.startswith("text/event-stream")
                for name, value in answer.headers
            )
            whole = None if streams else await answer.read()
        except PeerAway as away:
            await again_soon(str(away))(scope, receive, send)
            return
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in _passed_back(answer)]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if whole is not None:
            await send({"type": "http.response.body", "body": whole})
            return
        pump = asyncio.create_task(_pump(answer, send))
        gone = asyncio.create_task(_hung_up(receive))
        try:
            await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pump, gone):
                task.cancel()
            await asyncio.gather(pump, gone, return_exceptions=True)
            answer.close()
        await send({"type": "http.response.body", "body": b""})  # this end makes a page reconnect


def not_taken(url: str, status: int, body: bytes) -> str:
    """Say why a server did not accept a bundle."""
    try:
        said = str(msgspec.json.decode(body)["error"])[:200]
    except (*UNDECODABLE, KeyError, TypeError):
        said = "without a reason"
    why = (
        "it is of another version: all servers have to be of the same" if status in (403, 404, 405) else said
    )
    return (
        f"the server at {url}, which has this run, answered {status} to envelopes that were passed on"
        f" ({why}); try again"
    )


def _passed_back(answer: PeerAnswer) -> list[tuple[str, str]]:
    return [(name, value) for name, value in answer.headers if name not in _OF_CONNECTION]


async def _pump(answer: PeerAnswer, send: Send) -> None:
    with suppress(PeerAway):
        async for chunk in answer.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def run_asked_for(path: str) -> str | None:
    """Return the run that a request is about; None if there is none or it is an envelope."""
    if path.startswith(_RUNS):
        return unquote(path[len(_RUNS) :].partition("/")[0]) or None
    if path.startswith(_ALERTS):
        return run_of(unquote(path[len(_ALERTS) :].partition("/")[0])) or None
    return None
