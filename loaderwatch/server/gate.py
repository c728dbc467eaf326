"""The gate every request passes: Host, Origin, token or cookie, and the headers every answer carries."""

from __future__ import annotations

import html
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from loaderwatch.server.answers import error_answer
from loaderwatch.server.auth import Access, AllowedHosts, Tokens, hmac_equal, same_origin

_CSP: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self' 'unsafe-inline'",  # Plotly makes its style sheet and its SVG styles at run time
        "img-src 'self' data: blob:",  # Plotly's camera button draws through a data: or blob: image
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = (
    ("content-security-policy", _CSP),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    (
        "referrer-policy",
        "same-origin",
    ),  # "no-referrer" would make browsers send "Origin: null" with our own POSTs
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
)
_OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/login"})
_COOKIE_SECONDS: Final = 30 * 86400
_LOGIN_BYTES: Final = 4096


class Gate:
    """ASGI middleware. ``tokens`` None lets everyone in; Host and Origin are checked all the same."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens | None, hosts: AllowedHosts, port: int) -> None:
        self._app = app
        self._tokens = tokens
        self._hosts = hosts
        # A browser sends the cookies of every port of a host; the port in the name keeps two servers apart.
        self._cookie_name = f"loaderwatch_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through or answer it here."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # no websockets here

        path: str = scope["path"]
        api = path.startswith("/api/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS:
                    headers[name] = value
                if api:
                    headers["cache-control"] = "no-store"
            await send(message)

        request = Request(scope, receive)
        answer = self._refusal(request, path)
        if answer is None and self._tokens is not None:
            answer = await self._entrance(request, path, self._tokens)
        await (answer or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request, path: str) -> Response | None:
        headers = request.headers
        host = headers.get("host", "")
        if not self._hosts.allows(host):
            return error_answer(
                403,
                f"this server does not answer to the name {host[:100]!r}; start it with --allow-host NAME",
                "host",
            )
        guarded = request.method not in ("GET", "HEAD") or path.endswith("/events")
        if guarded and not same_origin(headers.get("origin"), headers.get("sec-fetch-site"), host):
            return error_answer(403, "this request comes from another site's page", "origin")
        return None

    async def _entrance(self, request: Request, path: str, tokens: Tokens) -> Response | None:
        if path == "/login":
            return await self._login(request, tokens)
        if path in _OPEN_PATHS:
            return None
        if path == "/" and request.method == "GET" and "token" in request.query_params:
            return self._opened_with_token(request, tokens)
        access = self._access(request, tokens)
        needed = Access.INGEST if path == "/api/v1/ingest" else Access.VIEW
        if needed in access:
            return None
        if access is not Access.NOTHING:
            which = "an agent" if needed is Access.INGEST else "a viewer"
            return error_answer(403, f"this token may not do that; use {which} token", "authorization")
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            return _login_page("")
        answer = error_answer(
            401,
            "no token, or one this server does not know; send Authorization: Bearer TOKEN",
            "authorization",
        )
        answer.headers["www-authenticate"] = "Bearer"
        return answer

    def _access(self, request: Request, tokens: Tokens) -> Access:
        authorization = request.headers.get("authorization")
        if authorization is not None:
            scheme, _, token = authorization.partition(" ")
            return tokens.access(token.strip()) if scheme.lower() == "bearer" else Access.NOTHING
        header = request.headers.get("cookie")
        if header is None:
            return Access.NOTHING
        try:
            morsel = SimpleCookie(header).get(self._cookie_name)
        except CookieError:
            return Access.NOTHING
        if morsel is not None and hmac_equal(morsel.value, tokens.cookie()):
            return Access.VIEW
        return Access.NOTHING

    def _opened_with_token(self, request: Request, tokens: Tokens) -> Response:
        if Access.VIEW not in tokens.access(request.query_params["token"]):
            return _login_page("This address holds a token that this server does not know.")
        rest = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
        return self._admit("/" + ("?" + urlencode(rest) if rest else ""), tokens)

    async def _login(self, request: Request, tokens: Tokens) -> Response:
        if request.method != "POST":
            return _login_page("")
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > _LOGIN_BYTES:
                    return error_answer(413, f"at most {_LOGIN_BYTES} bytes are accepted", "(body)")
        except ClientDisconnect:
            return Response(status_code=400)
        token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        if Access.VIEW not in tokens.access(token):
            return _login_page("This server does not know that token.")
        return self._admit("/", tokens)

    def _admit(self, where: str, tokens: Tokens) -> Response:
        answer = RedirectResponse(where, status_code=303)
        # Lax, so that a link in a chat message or e-mail finds the person still signed in. What changes anything is
        # guarded by Origin and Sec-Fetch-Site, and a GET changes nothing.
        answer.set_cookie(
            self._cookie_name,
            tokens.cookie(),
            max_age=_COOKIE_SECONDS,
            httponly=True,
            samesite="lax",
            path="/",
        )
        answer.headers["cache-control"] = "no-store"
        return answer


def _login_page(problem: str) -> Response:
    page = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>loaderwatch: sign in</title><link rel="icon" href="data:,">
<style>
:root {{ color-scheme: light dark; --ink: light-dark(#15171c, #eceef2); --soft: light-dark(#565b66, #a4abb8);
  --line: light-dark(#dfe2e8, #343a45); --card: light-dark(#fff, #1b1f27); --accent: #d9480f; }}
body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: light-dark(#f4f5f7, #12151b); margin: 0; }}
main {{ max-width: 30rem; margin: 14vh auto 0; padding: 1.75rem; background: var(--card);
  border: 1px solid var(--line); border-top: 3px solid var(--accent); border-radius: 10px; }}
h1 {{ font-size: 1.2rem; margin: 0 0 .5rem; }}
p {{ color: var(--soft); margin: .5rem 0; }}
form {{ display: flex; gap: .5rem; margin: 1.25rem 0 0; flex-wrap: wrap; }}
input, button {{ font: inherit; padding: .45rem .75rem; border-radius: 6px; border: 1px solid var(--line); }}
input {{ flex: 1 1 12rem; min-width: 0; color: var(--ink); background: var(--card); }}
button {{ background: #b93c0b; border-color: #b93c0b; color: #fff; font-weight: 600; cursor: pointer; }}
code {{ overflow-wrap: anywhere; }}
.problem {{ color: light-dark(#a40e26, #ff8f98); font-weight: 600; }}
.problem:empty {{ display: none; }}
@media (max-width: 34rem) {{ main {{ margin: 1rem; }} }}
</style></head><body><main>
<h1>This page needs a token</h1>
<p class="problem" role="alert">{html.escape(problem)}</p>
<p>Open the address that <code>loaderwatch serve</code> or the training job printed; it holds the token.
It is also kept in <code>token.json</code> in the server's data folder.</p>
<form method="post" action="/login">
<label for="token" hidden>Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" placeholder="viewer token" required autofocus>
<button>Open</button></form>
</main></body></html>"""
    return HTMLResponse(page, status_code=401, headers={"cache-control": "no-store"})
