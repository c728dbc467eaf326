"""The application before it is ready, and its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.responses import Response

from loaderwatch.core.errors import ConfigError
from loaderwatch.server.app import create_app
from loaderwatch.server.config_file import ServeOptions
from loaderwatch.server.http import ingest
from loaderwatch.server.ingest import Busy
from loaderwatch.server.store.protocol import StoreError
from tests.fakes.feed import Feed
from tests.fakes.serving import serving


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    app = create_app(ServeOptions(data_dir=tmp_path), tokens=None, url="http://127.0.0.1:1")
    yield app
    app.state.parts.store.close()


def ask(app: FastAPI, method: str, path: str, **more: Any) -> httpx.Response:
    async def call() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.request(method, path, **more)

    return asyncio.run(call())


def test_alive_before_ready(app: FastAPI) -> None:
    assert ask(app, "GET", "/healthz").status_code == 200
    early = ask(app, "GET", "/readyz")
    assert early.status_code == 503
    assert early.json()["error"]


def test_an_envelope_before_ready_is_to_come_again(app: FastAPI) -> None:
    from loaderwatch.core.wire import encode

    answer = ask(app, "POST", "/api/v1/ingest", content=encode(Feed().envelope()))
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"
    assert ask(app, "GET", "/api/v1/runs").json() == []


@pytest.mark.parametrize(
    ("error", "status", "field"),
    [
        (Busy(10**9, 2.6), 429, None),
        (StoreError("the disk is full"), 503, None),
        (ValueError("metric: no such"), 400, None),
        (RuntimeError("secret detail"), 500, None),
    ],
)
def test_errors_have_one_shape(app: FastAPI, error: Exception, status: int, field: str | None) -> None:
    @app.get("/api/v1/test-error")
    async def fail() -> Response:
        raise error

    app.router.routes.insert(0, app.router.routes.pop())  # before the page's route, which matches everything
    answer = ask(app, "GET", "/api/v1/test-error")
    assert answer.status_code == status
    assert set(answer.json()) == {"error", "field"}
    assert answer.json()["field"] == field
    assert "secret detail" not in answer.text
    if status == 429:
        assert answer.headers["retry-after"] == "3"


def test_a_method_or_path_that_is_not_there(app: FastAPI) -> None:
    for method, path, status in (
        ("DELETE", "/api/v1/runs", 405),
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/x", 404),
    ):
        answer = ask(app, method, path)
        assert answer.status_code == status
        assert set(answer.json()) == {"error", "field"}


def test_the_api_describes_itself(app: FastAPI) -> None:
    described = ask(app, "GET", "/api/v1/openapi.json").json()
    assert "/api/v1/runs/{run}/series" in described["paths"]
    assert ask(app, "GET", "/docs").status_code == 404


def test_an_address_to_notify_is_checked_first(tmp_path: Path) -> None:
    options = ServeOptions(data_dir=tmp_path / "new", notify=("nosuchservice://x",))
    with pytest.raises(ConfigError):
        create_app(options, tokens=None, url="http://x")
    assert not (tmp_path / "new").exists()


def test_too_many_at_once_are_told_when_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "MAX_CONCURRENT", 0)
    with serving(tmp_path) as access, access.client(access.agent) as agent:
        answer = agent.post("/api/v1/ingest", content=b"x")
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert access.get("/runs") == []
        monkeypatch.setattr(ingest, "MAX_CONCURRENT", 10)
        assert access.send(Feed().envelope())["stored_seq"] == 1


def test_too_many_bytes_at_once_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "MAX_READING_BYTES", 100)
    with serving(tmp_path) as access, access.client(access.agent) as agent:
        answer = agent.post("/api/v1/ingest", content=b"x" * 200)
        assert answer.status_code == 429
        assert json.loads(answer.text)["field"] is None
