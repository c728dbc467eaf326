"""Requests from the server's own OpenAPI description, valid and invalid: none makes the server fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings

from loaderwatch.core.server_trust import IDENTITY_PATH
from loaderwatch.server.access.page_sessions import SESSION_PATH
from tests.fakes.hostile import full_envelope
from tests.fakes.serving import Access, serving, wait_until

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis needs Python 3.11")

ENDLESS = "/api/v1/runs/{run}/events"  # the stream; asked for below
QUICK = 2
LONG = 60


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    import msgspec

    with serving(tmp_path_factory.mktemp("schema")) as access:
        with access.client(access.agent) as agent:
            answer = agent.post("/api/v1/ingest", content=msgspec.msgpack.encode(full_envelope()))
            assert answer.status_code == 200, answer.text
        wait_until("the run", lambda: access.get("/runs"))
        yield access


def try_all(access: Access, token: str, examples: int) -> dict[str, set[int]]:
    """Send ``examples`` requests to every operation, half of them for the existing run; their statuses."""
    with access.client() as client:
        schema = schemathesis.openapi.from_dict(client.get("/api/v1/openapi.json").json())
    headers = {"authorization": f"Bearer {token}"} if token else {}
    seen: dict[str, set[int]] = {}
    with httpx.Client(base_url=access.url, headers=headers, timeout=30, trust_env=False) as client:
        for found in schema.get_all_operations():
            operation = found.ok()
            if operation.path == ENDLESS:
                continue
            statuses = seen[f"{operation.method.upper()} {operation.path}"] = set()
            _try_one(client, operation, schemathesis.GenerationMode.POSITIVE, examples, statuses)
            if (
                operation.query
            ):  # the others take nothing, or any text: schemathesis cannot make a wrong request of them
                _try_one(client, operation, schemathesis.GenerationMode.NEGATIVE, examples, statuses)
    return seen


def _try_one(client: httpx.Client, operation: Any, mode: Any, examples: int, statuses: set[int]) -> None:
    """Every second request that may be about a run is about the one that is there."""
    numbers = itertools.count()

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        if next(numbers) % 2 and "run" in (case.path_parameters or {}):
            case.path_parameters["run"] = "run-1"
        request = case.as_transport_kwargs(base_url=str(client.base_url))
        answer = client.request(
            request["method"],
            request["url"],
            params=request.get("params"),
            content=_body(request),
            headers={
                k: v
                for k, v in (request.get("headers") or {}).items()
                if k.lower() not in ("host", "content-length")
            },
        )
        statuses.add(answer.status_code)
        assert answer.status_code < 500, f"{answer.request.method} {answer.request.url}: {answer.text}"
        if answer.status_code >= 400:
            assert set(answer.json()) == {"error", "field"}, "every error has one shape"

    check()


def _body(request: dict[str, Any]) -> bytes | None:
    body = request.get("data")
    return body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None


def test_no_request_is_a_fault_of_the_server(access: Access) -> None:
    seen = try_all(access, access.owner, QUICK)
    assert len(seen) >= 18
    assert 409 in seen.pop("POST /api/v1/server/stop"), "it is a part of this program, and a run is reporting"
    assert all(statuses & {200, 400, 403, 404} for statuses in seen.values()), seen
    assert sum(200 in statuses for statuses in seen.values()) >= 12, "most answered something"


@pytest.mark.long
def test_nor_is_one_without_a_token(access: Access) -> None:
    seen = try_all(access, "", 20)
    for path in (IDENTITY_PATH, SESSION_PATH):  # these come before any token: each side proves who it is
        del seen[f"GET {path}"]
    assert all(statuses == {401} for statuses in seen.values()), seen


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_request_of_many_is_a_fault_of_the_server(access: Access) -> None:
    try_all(access, access.owner, LONG)


def test_the_stream_takes_any_id(access: Access) -> None:
    with access.client() as client:
        for last in ("", "x", "-", "1-" * 50, "0-99999999999999999999", "\x7f", "a" * 5000):
            with client.stream("GET", "/api/v1/runs/run-1/events", headers={"last-event-id": last}) as answer:
                assert answer.status_code == 200
                assert next(answer.iter_lines()) == "retry: 1000"
        assert client.get("/api/v1/runs/nobody/events").status_code == 404


HOSTILE = [
    "nan",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "1e400",
    "9" * 400,
    "0x1",
    "١",
    "",
    " ",
    "-0",
    "1e18",
    "9223372036.854775807",
    "9223372037",
    "null",
    "1,5",
    "2e9",
]


@pytest.mark.parametrize("path", ["series", "heatmap", "fetches"])
def test_times_at_the_end_of_time(access: Access, path: str) -> None:
    with access.client() as client:
        for name in ("start", "end"):
            for value in HOSTILE:
                params: dict[str, str | int] = {"metric": "wait_s", "rank": 0, name: value, "points": 2000}
                answer = client.get(f"/api/v1/runs/run-1/{path}", params=params)
                assert answer.status_code in (200, 400), f"{name}={value}: {answer.text}"
        for rank in (2**31, 2**63 - 1, 2**63, 2**70, "-1"):
            answer = client.get(f"/api/v1/runs/run-1/{path}", params={"metric": "wait_s", "rank": rank})
            assert answer.status_code in (200, 400), f"rank={rank}: {answer.text}"


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{", b'{"seconds": NaN}', b'{"seconds": 1e400}',
                                  b'{"seconds": "1"}', b'{"seconds": true}', b"[" * 4000, b"\xff\xfe",
                                  b'{"seconds": 99999999999999999999}', b'{"seconds": -1}'])  # fmt: skip
def test_no_body_of_a_silence_is_a_fault(access: Access, body: bytes) -> None:
    with access.client() as client:
        assert client.post("/api/v1/alerts/run-1.x/silence", content=body).status_code == 400
        for alert in ("x", "run-1", "run-1." + "x" * 5000, "nobody.1", "%00", "..%2f..%2fx.1"):
            answer = client.post(f"/api/v1/alerts/{alert}/silence", content=b'{"seconds": 60}')
            assert answer.status_code in (404, 405), answer.text
