"""The gate in front of every route."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from loaderwatch.server.access.connection import LIMITED
from loaderwatch.server.access.page_sessions import PageSessions
from loaderwatch.server.access.request_gate import Gate
from loaderwatch.server.access.tokens import Keys, Tokens, allowed_hosts

TOKENS = Tokens("agent-token", "viewer-token", "owner-token", "master")
AGENT = {"authorization": "Bearer agent-token"}
VIEWER = {"authorization": "Bearer viewer-token"}
OWNER = {"authorization": "Bearer owner-token"}
MASTER = {"authorization": "Bearer master"}


async def inside(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(f"in {Request(scope).url.path}")(scope, receive, send)


def ask(
    method: str,
    path: str,
    *,
    tokens: Tokens | None = TOKENS,
    base: str = "http://127.0.0.1:8790",
    public_url: str | None = None,
    **more: Any,
) -> httpx.Response:
    async def call() -> httpx.Response:
        gate = Gate(
            inside,
            keys=Keys(tokens),
            hosts=allowed_hosts("127.0.0.1", ["watch.example"]),
            sessions=PageSessions(),
            open_to_all=tokens is None,
            public_url=public_url,
        )
        transport = httpx.ASGITransport(app=gate)
        async with httpx.AsyncClient(transport=transport, base_url=base) as client:
            return await client.request(method, path, **more)

    return asyncio.run(call())


def test_nobody_enters_without_a_token() -> None:
    answer = ask("GET", "/api/v1/runs")
    assert answer.status_code == 401
    assert answer.json()["field"] == "authorization"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert ask("GET", "/api/v1/runs", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert ask("GET", "/api/v1/runs", headers={"authorization": "Basic viewer-token"}).status_code == 401
    assert ask("GET", "/metrics").status_code == 401
    assert ask("GET", "/api/v1/openapi.json").status_code == 401


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/", "/v/0123/js/main.js", "/css/page.css"])
def test_health_and_the_pages_files_need_none(path: str) -> None:
    assert ask("GET", path).text == f"in {path}"


@pytest.mark.parametrize("path", ["/", "/v/0123/js/main.js", "/anything", "/vendored"])
def test_nothing_else_is_open_beside_them(path: str) -> None:
    assert ask("POST", path).status_code == 401
    if not path.startswith("/v/") and path != "/":
        assert ask("GET", path).status_code == 401


def test_viewers_read_owners_change_and_agents_ingest() -> None:
    for reader in (VIEWER, OWNER):
        assert ask("GET", "/api/v1/runs", headers=reader).status_code == 200
    assert ask("POST", "/api/v1/alerts/x/ack", headers=OWNER).status_code == 200
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NEW"):
        refused = ask(method, "/api/v1/alerts/x/ack", headers=VIEWER)
        assert refused.status_code == 403
        assert "the owner's token" in refused.json()["error"]
    assert ask("POST", "/api/v1/ingest", headers=OWNER).status_code == 403
    assert ask("POST", "/api/v1/ingest", headers=AGENT).status_code == 200
    refused = ask("POST", "/api/v1/ingest", headers=VIEWER)
    assert refused.status_code == 403
    assert "agent token" in refused.json()["error"]
    assert ask("GET", "/api/v1/runs", headers=AGENT).status_code == 403
    assert ask("GET", "/api/v1/runs", headers=MASTER).status_code == 200
    assert ask("POST", "/api/v1/ingest", headers=MASTER).status_code == 200


def test_no_auth_lets_in_but_still_checks_host_and_origin() -> None:
    assert ask("GET", "/api/v1/runs", tokens=None).status_code == 200
    assert ask("GET", "/api/v1/runs", tokens=None, headers={"host": "evil.example"}).status_code == 403
    assert ask("POST", "/x", tokens=None, headers={"origin": "http://evil.example"}).status_code == 403


def test_a_foreign_name_is_refused_with_the_next_move() -> None:
    answer = ask("GET", "/", headers={**VIEWER, "host": "evil.example:8790"})
    assert answer.status_code == 403
    assert answer.json()["field"] == "host"
    assert "--allow-host" in answer.json()["error"]


@pytest.mark.parametrize("path", ["/api/v1/alerts/x/ack", "/", "/api/v1/ingest"])
def test_other_sites_pages_may_not_post(path: str) -> None:
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        answer = ask("POST", path, headers={**MASTER, **headers})
        assert answer.status_code == 403
        assert answer.json()["field"] == "origin"


def test_other_sites_pages_may_not_listen() -> None:
    headers = {**VIEWER, "sec-fetch-site": "same-site"}
    assert ask("GET", "/api/v1/runs/r/events", headers=headers).status_code == 403
    assert ask("GET", "/api/v1/runs", headers=headers).status_code == 200


def test_a_header_does_not_make_a_connection_secure() -> None:
    forwarded = {
        "x-forwarded-proto": "https",
        "x-forwarded-host": "watch.example",
        "forwarded": "proto=https",
    }
    secure = "https://127.0.0.1:8790"
    headers = {**OWNER, **forwarded, "origin": "http://127.0.0.1:8790"}
    assert ask("POST", "/api/v1/alerts/x/ack", headers=headers).status_code == 200
    assert ask("POST", "/api/v1/alerts/x/ack", headers=headers, base=secure).status_code == 403
    evil = ask("GET", "/", headers={**OWNER, "host": "evil.example", "x-forwarded-host": "127.0.0.1:8790"})
    assert evil.status_code == 403


def test_a_page_of_the_same_host_without_tls_is_another_site() -> None:
    headers = {**OWNER, "origin": "http://127.0.0.1:8790"}
    assert (
        ask("POST", "/api/v1/alerts/x/ack", headers=headers, base="https://127.0.0.1:8790").status_code == 403
    )
    assert ask("POST", "/api/v1/alerts/x/ack", headers=headers).status_code == 200


def test_an_error_that_nobody_expects_is_answered_with_the_safety_headers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise OverflowError("int too large to convert to float")

    monkeypatch.setattr(PageSessions, "proof_of", broken)
    answer = ask("GET", "/api/v1/runs?proof=x")
    assert answer.status_code == 500
    assert "OverflowError" in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    (record,) = [each for each in caplog.records if each.name.endswith("request_gate")]
    assert record.exc_info is not None
    assert record.name in LIMITED


def test_every_answer_carries_the_safety_headers() -> None:
    for answer in (
        ask("GET", "/"),
        ask("GET", "/api/v1/runs", headers=VIEWER),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert ("script-src 'self'" in policy) == (answer.url.path == "/")
        assert "unsafe-eval" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert ask("GET", "/api/v1/runs", headers=VIEWER).headers["cache-control"] == "no-store"
    script = ask("GET", "/v/0123/js/main.js", headers=VIEWER).headers
    assert "script-src" not in script["content-security-policy"], "eighty files are a part of one page"
