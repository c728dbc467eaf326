"""The gate that every request passes: it checks Host, Origin and token or signature, and adds headers."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import math
from collections.abc import Callable
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loaderwatch.core.server_trust import IDENTITY_PATH
from loaderwatch.server.access.forwarded import FORWARDED_KEY, forwarded_by
from loaderwatch.server.access.page_sessions import SESSION_PATH, SIGNED_BYTES, PageSessions
from loaderwatch.server.access.rate_limits import Guesses, TooMany, Turns, caller_of
from loaderwatch.server.access.tokens import Access, AllowedHosts, Keys, same_origin
from loaderwatch.server.encoding import body_of, error_answer, too_large
from loaderwatch.server.idle_shutdown import SERVER_PATH
from loaderwatch.server.live.event_stream import MAX_CLIENTS, MAX_CLIENTS_OF_ONE
from loaderwatch.server.store.deadline import Deadline

_FILLED_LATER: Final = ""
"""The style sheet that Plotly creates empty and fills rule by rule."""

SHARP: Final = "".join(
    f"image-rendering: {value}; "
    for value in (
        *("optimizeSpeed", "-moz-crisp-edges", "-o-crisp-edges", "-webkit-optimize-contrast"),
        *("optimize-contrast", "crisp-edges", "pixelated"),
    )
)
"""The style that Plotly sets as text on heat maps with more cells than pixels, to prevent blurring."""


def headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of pages, as names and values."""
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {_hash(_FILLED_LATER)}",
        f"style-src-attr 'unsafe-hashes' {_hash(SHARP)}",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types loaderwatch",  # the policy in web/js/plotly.js allows the address of one script
    )
    return (
        ("content-security-policy", "; ".join(policy)),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        # "no-referrer" would make browsers send "Origin: null" with our own POSTs
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    )


def answer_headers() -> tuple[tuple[str, str], ...]:
    """Return the headers of answers that are not pages. For scripts and style sheets, their page counts.

    A browser that shows such an answer as a page may load nothing for it.
    """
    return (
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-resource-policy", "same-origin"),
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_log = logging.getLogger(__name__)

_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", IDENTITY_PATH, SESSION_PATH})
_OPEN_FOLDERS: Final = ("/v/", "/js/", "/css/", "/lang/", "/vendor/")
"""The folders of the page's files. They hold no secret, and the page itself asks for the token."""
_PARTS: Final = (".js", ".css", ".json", ".webmanifest")
"""Files that are parts of a page, never a page. Their names decide: a "not modified" answer has no type."""
ACCESS_KEY: Final = "loaderwatch.access"
"""The key of the caller's ``Access`` in a request's scope."""
QUESTIONS_AT_ONCE: Final = 8  # per address; a browser asks six at once, and the server has 40 threads
QUESTIONS_WAITING: Final = 100

READ_S: Final = 60.0
"""Seconds that a question may read a store. A chart takes 0.1 s, a window of 1,000 ranks some seconds."""
WHOLE_READ_S: Final = 600.0
"""The same for questions about all rows of a run: as long as the command line waits for the answer."""
_WHOLE: Final = ("/fingerprint", "/recording")
_TAKEN_IN: Final = ("/ingest", "/ingest/bundle", "/import")
"""Path endings of requests that bring data. They have their own limits."""
_MESSAGES: Final = 16
"""Messages of a question that may wait. A question has two: an empty body and the end of the connection."""


class _TooLong(Exception):
    """The body of a signed request is longer than ``SIGNED_BYTES``."""


class Gate:
    """ASGI middleware in front of every route; a path that no rule here names is closed.

    Reading needs ``Access.VIEW``, sending ``Access.INGEST``, any other request ``Access.CHANGE``.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        keys: Keys,
        sessions: PageSessions,
        hosts: AllowedHosts,
        open_to_all: bool = False,
        public_url: str | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        seen: Callable[[], None] = lambda: None,
    ) -> None:
        """Put the gate in front of an application.

        ``is_stopping``: whether the server is ending, so that an error of a closed file is not a fault.
        ``seen`` is called for every request with access.
        ``open_to_all`` asks for no token; Host and Origin are still checked.
        """
        self._app = app
        self._keys = keys
        self._sessions = sessions
        self._open_to_all = open_to_all
        self._page_headers = headers()
        # short, because a page has eighty files and gets ten answers a second
        self._answer_headers = answer_headers()
        self._hosts = hosts
        scheme, _, name = (public_url or "").partition("://")
        self._is_stopping = is_stopping
        self._seen = seen
        self._https_host = name.partition("/")[0].lower() if scheme == "https" else None
        self._guesses = Guesses()
        self._turns = Turns(QUESTIONS_AT_ONCE, QUESTIONS_WAITING)
        self._streams = Turns(MAX_CLIENTS_OF_ONE, most_of_all=MAX_CLIENTS, retry_after_s=5.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no websockets here

        path: str = scope["path"]
        api = path.startswith("/api/")
        part = api or path.endswith(_PARTS)
        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in self._answer_headers if part else self._page_headers:
                    headers[name] = value
                if api:
                    headers["cache-control"] = "no-store"
            await send(message)

        try:
            await self._pass(scope, receive, send_with_headers)
        except TooMany as many:
            await too_many(many)(scope, receive, send_with_headers)
        except asyncio.CancelledError:
            if started:
                raise
            # Only a stopping server cancels a request. The request is sent again and reaches the next server.
            await stopping()(scope, receive, send_with_headers)
        except Exception as error:
            if started:
                raise
            if self._is_stopping():  # threads and files are already closed
                answer = stopping()
            else:
                _log.exception("%s %s failed", scope["method"], path)
                kind = type(error).__name__
                answer = error_answer(500, f"a fault of the server ({kind}); its log has the details")
            await answer(scope, receive, send_with_headers)

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through when it is its turn, or answer it here.

        Raises:
            TooMany: this caller asks for more than its share.
        """
        path: str = scope["path"]
        request = Request(scope, receive)
        answer = self._refusal(request, path)
        access = Access.ALL
        forwarded = forwarded_by(request.headers, self._keys.tokens)
        if forwarded is not None:  # the server that passed it on has checked it
            scope[FORWARDED_KEY] = True
            access, scope["client"] = forwarded.access, (forwarded.caller, 0)
        elif answer is None and not self._open_to_all:
            answer, access, receive = await self._entrance(request, path)
        if answer is not None:
            await answer(scope, receive, send)
            return
        scope[ACCESS_KEY] = access
        if access and path not in _OPEN_PATHS and path != SERVER_PATH:
            self._seen()
        if path.endswith(_TAKEN_IN):
            await self._app(scope, receive, send)
        elif request.method != "GET" or not (path.startswith("/api/") or path == "/metrics"):
            with Deadline(READ_S, _too_long(READ_S)).holds():
                await self._app(scope, receive, send)
        elif path.endswith("/events"):
            async with self._streams.turn(_caller(request)):
                with Deadline(READ_S, _too_long(READ_S)).holds():
                    await self._app(scope, receive, send)
        else:
            async with self._turns.turn(_caller(request)):
                await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a question through; stop its reads when its time is over or the client hangs up."""
        within_s = WHOLE_READ_S if scope["path"].endswith(_WHOLE) else READ_S
        deadline = Deadline(within_s, _too_long(within_s))
        arrived: asyncio.Queue[Message] = asyncio.Queue(_MESSAGES)

        async def listen() -> None:
            more = True
            while more:
                message = await receive()
                more = message["type"] == "http.request"
                await arrived.put(message)
            deadline.stop("the client has hung up")

        listening = asyncio.create_task(listen())
        try:
            with deadline.holds():
                await self._app(scope, arrived.get, send)
        except asyncio.CancelledError:
            deadline.stop("the server is stopping")  # the reading thread is not cancelled
            raise
        finally:
            listening.cancel()

    def _refusal(self, request: Request, path: str) -> Response | None:
        headers = request.headers
        host = headers.get("host", "")
        if not self._hosts.allows(host):
            return error_answer(
                403,
                f"this server does not answer to the name {host[:100]!r}; start it with --allow-host NAME",
                "host",
            )
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may read one of them and we the other, and so disagree where the next request starts.
            answer = error_answer(400, "a body has one length: Content-Length or Transfer-Encoding", "(body)")
            answer.headers["connection"] = "close"
            return answer
        guarded = request.method not in ("GET", "HEAD") or path.endswith("/events")
        if guarded and not same_origin(
            headers.get("origin"), headers.get("sec-fetch-site"), host, secure=self._is_secure(request)
        ):
            return error_answer(403, "this request comes from another site's page", "origin")
        return None

    def _is_secure(self, request: Request) -> bool:
        """Whether the browser uses TLS, with us or the ``--public-url`` proxy; headers do not count."""
        host = request.headers.get("host", "").strip().lower()
        return request.scope["scheme"] == "https" or (
            self._https_host is not None and host == self._https_host
        )

    async def _entrance(self, request: Request, path: str) -> tuple[Response | None, Access, Receive]:
        """Return the refusal, if any, the caller's access, and the source of the request's body."""
        receive = request.receive
        reads = request.method in ("GET", "HEAD")
        if path in _OPEN_PATHS or (reads and (path == "/" or path.startswith(_OPEN_FOLDERS))):
            return None, Access.NOTHING, receive
        try:
            access, receive = await self._access(request)
        except TooMany as many:
            return too_many(many), Access.NOTHING, receive
        except ClientDisconnect:
            return Response(status_code=400), Access.NOTHING, receive
        except _TooLong:
            return too_large(SIGNED_BYTES), Access.NOTHING, receive
        needed, which = _needed(request.method, path)
        if needed in access:
            return None, access, receive
        if access is not Access.NOTHING:
            error = f"this token may not do that; use {which} token"
            return error_answer(403, error, "authorization"), access, receive
        answer = error_answer(
            401,
            "no token, or one this server does not know; send Authorization: Bearer TOKEN",
            "authorization",
        )
        answer.headers["www-authenticate"] = "Bearer"
        return answer, access, receive

    async def _access(self, request: Request) -> tuple[Access, Receive]:
        """Return the access of a request by its token or signature, and the source of its body.

        Raises:
            _TooLong: the body of a signed request is longer than ``SIGNED_BYTES``.
            ClientDisconnect: the body ended early.
            TooMany: this caller showed too many wrong tokens.
        """
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _, token = authorization.partition(" ")
            shown = self._shown(request, token.strip()) if scheme.lower() == "bearer" else Access.NOTHING
            return shown, request.receive
        tokens = self._keys.tokens
        proof = None if tokens is None else self._sessions.proof_of(request, tokens)
        if proof is None or tokens is None:
            return Access.NOTHING, request.receive
        body = b"" if request.method in ("GET", "HEAD") else await body_of(request, SIGNED_BYTES)
        if body is None:
            raise _TooLong
        access = self._sessions.access(proof, body, tokens)
        return access, request.receive if request.method in ("GET", "HEAD") else _again(body, request.receive)

    def _shown(self, request: Request, token: str) -> Access:
        """Return the access that a token gives.

        Raises:
            TooMany: this caller showed too many wrong tokens.
        """
        tokens = self._keys.tokens
        if not token or tokens is None:
            return Access.NOTHING
        caller = _caller(request)
        wait_s = self._guesses.wait_s(caller, token)
        if wait_s > 0:
            raise TooMany(f"too many wrong tokens from {caller}", max(1.0, math.ceil(wait_s)))
        access = tokens.access(token)
        self._guesses.note(caller, token, right=access is not Access.NOTHING)
        return access


def too_many(many: TooMany) -> Response:
    """Make the answer to a caller who asks for more than its share."""
    answer = error_answer(429, str(many))
    answer.headers["retry-after"] = str(max(1, math.ceil(many.retry_after_s)))
    return answer


def _again(body: bytes, receive: Receive) -> Receive:
    """Let the application read a body that was already read, then the client's further messages."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message


def stopping() -> Response:
    """Make the answer to a request that a stopping server cannot finish."""
    answer = error_answer(503, "the server is stopping; send it again later")
    answer.headers["retry-after"] = "2"
    return answer


def _too_long(within_s: float) -> str:
    return f"the answer takes longer than {within_s:.0f} s; ask for a shorter time or for fewer ranks"


def _needed(method: str, path: str) -> tuple[Access, str]:
    if path == "/api/v1/ingest":
        return Access.INGEST, "an agent"
    if method in ("GET", "HEAD"):
        return Access.VIEW, "a viewer"
    return Access.CHANGE, "the owner's"


def _caller(request: Request) -> str:
    return caller_of(request.client.host if request.client else None)
