"""Every route of the server and who may pass it: a route that is not in this table fails the test."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from loaderwatch.core.records import TABLES
from loaderwatch.core.server_trust import new_challenge
from loaderwatch.core.wire import encode, pack_table
from loaderwatch.detect.finding import Finding, Texts
from loaderwatch.server.access.tokens import Tokens
from loaderwatch.server.app import create_app
from loaderwatch.server.config_file import ServeOptions
from loaderwatch.server.live.event_stream import MAX_CLIENTS_OF_ONE
from tests.fakes.feed import Feed
from tests.fakes.serving import Access, ScriptedDetector, serving, wait_until

ALL, READS, CHANGES, SENDS = "everyone", "viewer and owner", "owner", "agent"
WHO = {
    "GET /healthz": ALL,
    "GET /readyz": ALL,
    "GET /api/v1/identity": ALL,
    "GET /api/v1/session": ALL,
    "GET /api/v1/server": READS,
    "POST /api/v1/server/stop": CHANGES,
    "GET /api/v1/openapi.json": READS,
    "HEAD /api/v1/openapi.json": READS,
    "GET /api/v1/runs": READS,
    "PATCH /api/v1/runs/{run}": CHANGES,
    "DELETE /api/v1/runs/{run}": CHANGES,
    "GET /api/v1/runs/{run}/contents": READS,
    "GET /api/v1/compare": READS,
    "GET /api/v1/runs/{run}/summary": READS,
    "GET /api/v1/runs/{run}/findings": READS,
    "GET /api/v1/runs/{run}/series": READS,
    "GET /api/v1/runs/{run}/heatmap": READS,
    "GET /api/v1/runs/{run}/epochs": READS,
    "GET /api/v1/runs/{run}/boundaries": READS,
    "GET /api/v1/runs/{run}/marks": READS,
    "GET /api/v1/runs/{run}/fetches": READS,
    "GET /api/v1/runs/{run}/slow-samples": READS,
    "GET /api/v1/runs/{run}/profile": READS,
    "GET /api/v1/runs/{run}/audit": READS,
    "GET /api/v1/runs/{run}/what-if": READS,
    "GET /api/v1/runs/{run}/coupling": READS,
    "GET /api/v1/runs/{run}/ranks": READS,
    "GET /api/v1/runs/{run}/gpus": READS,
    "GET /api/v1/runs/{run}/workers": READS,
    "GET /api/v1/runs/{run}/stacks": READS,
    "GET /api/v1/runs/{run}/recording": READS,
    "GET /api/v1/runs/{run}/fingerprint": READS,
    "POST /api/v1/runs/{run}/import": CHANGES,
    "GET /api/v1/runs/{run}/events": READS,
    "GET /metrics": READS,
    "GET /{path:path}": ALL,  # the page's files, see test_of_the_page_only_the_files_are_open
    "HEAD /{path:path}": ALL,
    "POST /api/v1/runs/{run}/stacks": CHANGES,
    "POST /api/v1/alerts/{id}/ack": CHANGES,
    "POST /api/v1/alerts/{id}/silence": CHANGES,
    "POST /api/v1/ingest": SENDS,
    "POST /api/v1/ingest/bundle": CHANGES,  # and is told that there is no such thing: it is for servers
}
MAY = {
    ALL: {"nobody", "agent", "viewer", "owner"},
    READS: {"viewer", "owner"},
    CHANGES: {"owner"},
    SENDS: {"agent"},
}


def routes(folder: Path) -> list[str]:
    options = ServeOptions(data_dir=folder)
    options.runs_dir.mkdir(parents=True)
    app = create_app(options, tokens=Tokens("a", "v", "o"), url="http://127.0.0.1:1")
    found = []
    pending = list(app.routes)
    while pending:
        route = pending.pop()
        inner = getattr(route, "routes", None) or getattr(
            getattr(route, "original_router", None), "routes", None
        )
        if inner:
            pending += inner
            continue
        path, methods = getattr(route, "path", None), getattr(route, "methods", None)
        assert path, f"{route!r}: what is it?"
        assert methods, f"{route!r}: what is it?"
        found += [f"{method} {path}" for method in methods]
    return found


def test_no_route_is_forgotten(tmp_path: Path) -> None:
    assert sorted(routes(tmp_path)) == sorted(WHO), "say in WHO who may pass a new route"


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    with serving(tmp_path_factory.mktemp("doors")) as access:
        access.send(Feed().envelope())
        yield access


@pytest.fixture(scope="module")
def http(access: Access) -> Iterator[httpx.Client]:
    with access.client("") as client:
        yield client


def ask(http: httpx.Client, door: str, token: str, **headers: str) -> tuple[int, httpx.Headers]:
    method, _, path = door.replace("{path:path}", "js/main.js").partition(" ")
    path = path.format(run="run-1", id="run-1.x")
    if token:
        headers["authorization"] = f"Bearer {token}"
    if path.endswith(("/identity", "/session")):
        path += f"?challenge={new_challenge()}"
    with http.stream(method, path, headers=headers) as answer:
        return answer.status_code, answer.headers


@pytest.mark.parametrize("door", WHO)
def test_who_may_pass(access: Access, http: httpx.Client, door: str) -> None:
    tokens = {
        "nobody": "",
        "wrong": "wrong",
        "agent": access.agent,
        "viewer": access.viewer,
        "owner": access.owner,
    }
    for who, token in tokens.items():
        status, headers = ask(http, door, token)
        if who in MAY[WHO[door]] or (who == "wrong" and WHO[door] == ALL):
            assert status not in (401, 403), f"{who} should pass"
        else:
            assert status == (401 if who in ("nobody", "wrong") else 403), f"{who} should not pass"
        assert not [name for name in headers if name.startswith("access-control")], (
            "no other site may read answers"
        )


@pytest.mark.parametrize(
    "path", ["/token.json", "/anything", "/docs", "/vendored", "/api", "/metrics", "/login"]
)
def test_of_the_page_only_the_files_are_open(http: httpx.Client, path: str) -> None:
    assert http.get("/").status_code == 200
    assert http.get("/", params={"token": "wrong"}).status_code == 200, (
        "the page itself says that it is wrong"
    )
    assert http.get(path).status_code == 401
    assert http.post("/").status_code == 401


@pytest.mark.parametrize("door", WHO)
def test_a_rebound_name_is_no_way_in(access: Access, http: httpx.Client, door: str) -> None:
    """DNS rebinding: evil.example resolves to 127.0.0.1, so its page has the same origin as our server."""
    token = access.agent if WHO[door] == SENDS else access.owner
    for host in (
        "evil.example",
        "evil.example:80",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "127.0.0.1@evil",
        "",
    ):
        assert ask(http, door, token, host=host)[0] == 403, host


@pytest.mark.parametrize("door", WHO)
def test_another_sites_page_changes_and_streams_nothing(
    access: Access, http: httpx.Client, door: str
) -> None:
    token = access.agent if WHO[door] == SENDS else access.owner
    method, _, path = door.partition(" ")
    guarded = method not in ("GET", "HEAD") or path.endswith("/events")
    port = access.url.rpartition(":")[2]
    for headers in (
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": f"http://127.0.0.1:{port}.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ):
        status, answer = ask(http, door, token, **headers)
        assert (status == 403) == guarded, headers
        assert answer["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "CONNECT", "PUT", "DELETE", "PATCH", "PROPFIND"])
def test_other_methods_do_nothing(access: Access, method: str) -> None:
    with access.client() as client:
        for path in ("/", "/api/v1/runs", "/api/v1/alerts/x/ack", "/healthz", "/js/main.js"):
            answer = client.request(method, path)
            assert answer.status_code in (400, 404, 405), path
            assert "authorization" not in answer.text.lower(), "TRACE would echo the token"
            assert "text/html" not in answer.headers["content-type"]


@pytest.mark.parametrize(
    "path",
    [
        "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/js/..%2f..%2f..%2fpyproject.toml",
        "//etc/passwd",
        "/%00", "/js/main.js%00.css", "/C:%5Cwindows", "/..%5c..%5cetc", "/.git/config", "/js/.hidden",
        "/" + "a" * 8000,
        "/api/v1/runs/..%2f..%2ftoken.json/summary", "/api/v1/runs/%2e%2e/summary",
        "/api/v1/runs/x%00/stacks",
        "/api/v1/runs/" + "a" * 10_000 + "/summary", "/api/v1/runs/CON/summary",
        "/api/v1/runs/%F0%9F%92%A9/summary",
        "/api/v1/runs/%ff%fe/recording", "/api/v1/runs/a%0d%0aset-cookie:%20x=1/recording",
        "/api/v1/runs/run-1.wal/summary",
        "/api/v1/runs/Run-1/summary", "/api/v1/runs/run-1%20/summary",
        "/api/v1/runs/%2fetc%2fpasswd/findings",
    ],
)  # fmt: skip
def test_no_path_leads_out_or_is_echoed_as_html(access: Access, path: str) -> None:
    with access.client() as client:
        answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code in (400, 404), answer.text[:200]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "root:" not in answer.text
    assert "set-cookie" not in answer.headers
    assert len(answer.text) < 1000, "an error does not repeat everything it was sent"


def test_errors_are_json_and_hold_no_markup_that_a_browser_would_run(access: Access) -> None:
    bad = "<script>alert(1)</script>"
    with access.client() as client:
        for path in (f"/{bad}", f"/api/v1/runs/{bad}/summary", f"/api/v1/runs/run-1/series?metric={bad}"):
            answer = client.get(path, headers={"accept": "text/html"})
            assert answer.status_code in (400, 404)
            assert answer.headers["content-type"] == "application/json"
        answer = client.get("/", headers={"host": bad, "accept": "text/html"})
        assert answer.headers["content-type"] == "application/json"


def test_a_download_has_a_name_of_ours(access: Access) -> None:
    with access.client() as client:
        answer = client.get("/api/v1/runs/run-1/recording")
    assert answer.headers["content-disposition"] == 'attachment; filename="run-1.lwrec"'


def test_wrong_tokens_are_slowed_down_and_those_who_are_in_are_not(tmp_path: Path) -> None:
    with serving(tmp_path) as access, access.client() as owner, access.client("") as guesser:
        assert owner.get("/api/v1/runs").status_code == 200
        statuses = []
        for number in range(30):
            answer = guesser.get("/api/v1/runs", headers={"authorization": f"Bearer guess-{number}"})
            statuses.append(answer.status_code)
        assert statuses[:20] == [401] * 20
        assert statuses[-1] == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        right = guesser.get("/api/v1/runs", headers={"authorization": f"Bearer {access.viewer}"})
        assert right.status_code == 429, "nor is a right one looked at"
        assert owner.get("/api/v1/runs").status_code == 200


def test_rows_of_ranks_that_nobody_is_are_refused_and_counted(access: Access) -> None:
    """Who has the agent token could fill the memory with 65,536 of them."""
    envelope = Feed("crowded").envelope(steps=0)
    rows = [[rank] + [0] * (len(TABLES["steps"]) - 1) for rank in range(1, 1000)]
    envelope.tables["steps"] = pack_table("steps", rows)

    def refused() -> float:
        with access.client() as client:
            lines = client.get("/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith("loaderwatch_ingest_rejected"))

    before = refused()
    with access.client(access.agent) as client:
        answer = client.post("/api/v1/ingest", content=encode(envelope))
    assert answer.status_code == 400
    assert answer.json()["field"] == "processes"
    assert "999 ranks, 1 among them, have rows and no process" in answer.json()["error"]
    assert refused() == before + 1
    assert "crowded" not in {run["run_id"] for run in access.get("/runs")}


def test_one_address_follows_so_many_runs_and_no_more(access: Access) -> None:
    host, _, port = access.url.partition("://")[2].partition(":")
    ask = (
        f"GET /api/v1/runs/run-1/events HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {access.viewer}\r\n\r\n"
    )

    def follow() -> tuple[bytes, socket.socket]:
        connection = socket.create_connection((host, int(port)), timeout=20)
        connection.sendall(ask.encode())
        return connection.recv(4096).partition(b"\r\n")[0], connection

    held = [follow() for _ in range(MAX_CLIENTS_OF_ONE)]
    try:
        assert {status for status, _ in held} == {b"HTTP/1.1 200 OK"}
        status, more = follow()
        more.close()
        assert status == b"HTTP/1.1 429 Too Many Requests"
    finally:
        for _, connection in held:
            connection.close()

    def again() -> bool:
        status, connection = follow()
        connection.close()
        return status == b"HTTP/1.1 200 OK"

    wait_until("the places are given back", again)


def hung() -> Finding:
    return Finding(
        key="hung:0", code="hung", scenario="S36", severity="critical", confidence=0.9,
        began_ns=time.time_ns(), texts=Texts(title="Rank 0 hangs.", cause="c", advice="a"), rank=0,
    )  # fmt: skip


CLAIMS: dict[str, dict[str, Any]] = {
    "its host": {},
    "its host and another rank": {"rank": 5, "pid": 9},
    "its host and a rank below the lowest": {"rank": -1, "pid": 9},
    "rank 0, started before": {"pid": 9, "started_ns": time.time_ns() - 3600 * 10**9},
    "rank 0, started since": {"pid": 9, "started_ns": time.time_ns()},
    "rank 0, the same pid": {"started_ns": time.time_ns()},
    "rank 0, crashed": {"pid": 9, "state": "crashed"},
}
"""The process that another sender names to learn something of a run."""


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_receipt_tells_nothing_of_what_others_sent(tmp_path: Path, claim: str) -> None:
    """The agent's token only sends: it reads no verdict, alert or request for stacks of any run or host."""
    detector = ScriptedDetector()
    with serving(tmp_path, detector=detector) as access:
        job, other = Feed(), Feed()
        access.send(job.envelope(steps=20))
        detector.findings = [hung()]
        wait_until("the verdict", lambda: access.get("/runs/run-1/summary")["state"] == "hung")
        processes = [other.process(**CLAIMS[claim])] if CLAIMS[claim] else []

        def intrude() -> None:
            sent = other.envelope(steps=0, stream="another-stream", processes=processes, spans=[])
            told = access.send(sent)
            said = {name: told[name] for name in ("stack_requests", "notices", "closing")}
            assert said == {"stack_requests": [], "notices": [], "closing": None}

        for _ in range(4):
            seen = len(detector.windows)
            intrude()
            wait_until("a look at it", lambda seen=seen: len(detector.windows) > seen)  # type: ignore[misc]
        if claim.startswith("its host"):  # else two streams claim the rank, and neither learns anything
            receipts: list[dict[str, Any]] = []

            def told_all() -> bool:
                receipts.append(access.send(job.envelope()))
                names = ("stack_requests", "notices", "closing")
                return all(any(receipt[name] for receipt in receipts) for name in names)

            wait_until("the job is told what it was not", told_all)
        access.send(job.envelope(state="finished", final=True))
        for _ in range(4):
            intrude()
